"""Environments: the checks of Gymnasium and PettingZoo, and one episode a seed."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

import bbrlab.gym


def fixed(_rng):
    return {"rate": "20mbit", "rtt": "20ms", "buffer": "1bdp", "flows": ["cubic"], "seed": 3}


def episode(env, seed, steps=200):
    env.reset(seed=seed)
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(steps):
        seen, reward, _, over, info = env.step(rng.uniform(-0.2, 0.2, 2).astype(np.float32))
        rows.append((*seen.tolist(), reward, info["others_bps"]))
        if over:
            break
    return rows


def test_the_environment_passes_gymnasiums_checks():
    check_env(gymnasium.make("bbrlab/CongestionControl-v1").unwrapped, skip_render_check=True)


def test_a_seed_gives_one_episode():
    env = bbrlab.gym.CongestionControl()
    assert episode(env, 5) == episode(env, 5) == episode(bbrlab.gym.CongestionControl(), 5)
    assert episode(env, 5) != episode(env, 6)


def test_an_episode_ends_with_its_duration_and_has_a_rival():
    env = bbrlab.gym.CongestionControl(fixed, duration_s=2.0, step_s=0.1)
    rows = episode(env, 1)
    assert len(rows) == 20 and max(row[-1] for row in rows) > 1e6
    assert episode(bbrlab.gym.CongestionControl(fixed, duration_s=2.0, step_s=0.0), 1)


def test_a_larger_window_gets_more_and_waits_longer():
    def run(window):
        env = bbrlab.gym.CongestionControl(lambda rng: {**fixed(rng), "flows": []}, duration_s=5.0)
        env.reset(seed=1)
        env._agent.cwnd = window
        rows = [env.step(np.zeros(2, dtype=np.float32))[4] for _ in range(60)]
        return np.mean([row["rate_bps"] for row in rows[20:]]), np.mean([row["rtt_ms"] for row in rows[20:]])

    (small, short), (large, long) = run(10.0), run(60.0)
    assert large > 2 * small and long > 1.2 * short


def test_the_vector_form_equals_single_ones():
    actions = np.random.default_rng(2).uniform(-0.3, 0.3, (50, 3, 2)).astype(np.float32)
    vector = bbrlab.gym.CongestionControlVector(3, fixed, duration_s=1.5)
    vector.reset(seed=4)
    together = [vector.step(one) for one in actions]
    single = bbrlab.gym.CongestionControl(fixed, duration_s=1.5)
    single.reset(seed=4)
    for nth in range(30):
        seen, reward, _, over, _ = single.step(actions[nth, 0])
        assert np.allclose(seen, together[nth][0][0], rtol=1e-5), nth
        assert reward == pytest.approx(together[nth][1][0], rel=1e-5)
        assert over == together[nth][3][0]
    assert together[29][3].all() and not together[30][3].any()


def test_the_parallel_form_passes_pettingzoos_checks():
    parallel_api_test(bbrlab.gym.parallel(3, fixed, duration_s=2.0), num_cycles=100)
    parallel_seed_test(lambda: bbrlab.gym.parallel(2, fixed, duration_s=2.0))


def test_a_step_before_a_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        bbrlab.gym.CongestionControl().step(np.zeros(2, dtype=np.float32))
