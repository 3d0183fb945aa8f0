"""Trains a policy with PPO, and judges it beside CUBIC and BBR on paths that it has not seen: ppo.py [STEPS]

pip install bbrlab[gym] stable-baselines3; two minutes on a CPU. The policy sees what a sender sees. Its reward is the logarithm of
the rate, less the queue that it builds; neither needs a figure that a sender does not have.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import math
import statistics
import sys

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import bbrlab
import bbrlab.gym

RULES = {"step_s": 0.05, "duration_s": 10.0}
PATHS = 20


def lossy(rng):
    """A path with 1 % random loss and a buffer of one to four BDP, without rivals."""
    rate, rtt = math.exp(rng.uniform(math.log(5e6), math.log(50e6))), rng.uniform(20, 80)
    return {"rate": f"{int(rate)}bit", "rtt": f"{rtt:.1f}ms", "buffer": f"{rng.uniform(1, 4):.2f}bdp", "loss": "1%", "flows": []}


def reward(figures, _):
    queue = figures["srtt_ms"] / figures["min_rtt_ms"] - 1 if figures["min_rtt_ms"] else 0.0
    return math.log(max(figures["rate_bps"], 1e5) / 1e6) - queue


def episode(policy, seed):
    """Goodput and RTT of the policy in an episode, and its scenario."""
    env = bbrlab.gym.CongestionControl(lossy, reward=reward, **RULES)
    seen, info = env.reset(seed=seed)
    rates, delays, over = [], [], False
    while not over:
        action, _ = policy.predict(seen, deterministic=True)
        seen, _, _, over, figures = env.step(action)
        rates.append(figures["rate_bps"])
        delays.append(figures["rtt_ms"] / max(figures["min_rtt_ms"], 1e-3))
    return statistics.fmean(rates), statistics.median(delays), info["scenario"]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    env = make_vec_env(lambda: bbrlab.gym.CongestionControl(lossy, reward=reward, **RULES), n_envs=8, seed=1)
    policy = PPO("MlpPolicy", env, n_steps=256, batch_size=256, gamma=0.98, learning_rate=1e-3, seed=1, device="cpu")
    policy.learn(steps)

    found = {name: [] for name in ("policy", "cubic", "bbr1", "bbr3")}
    # Seeds of training are 1 to 8 and what follows from them.
    for seed in range(10_000, 10_000 + PATHS):
        rate, delay, scenario = episode(policy, seed)
        number = scenario["rate"].removesuffix("bit")
        capacity = float(number.rstrip("kmg")) * {"k": 1e3, "m": 1e6, "g": 1e9}.get(number[-1], 1.0)
        found["policy"].append((rate / capacity, delay))
        for name in ("cubic", "bbr1", "bbr3"):
            flow = bbrlab.run(scenario, flows=[name], warmup="0s").flows[0]
            found[name].append((flow.goodput_bps / capacity, flow.rtt_ms.p50 / flow.rtt_ms.min))
    print(f"{PATHS} unseen paths of 5 to 50 Mbit/s, 20 to 80 ms, 1 % random loss; after {steps:,} steps of PPO")
    print(f"{'':8} {'of the link':>12} {'RTT p50 / least':>16}")
    for name, rows in found.items():
        shares, delays = np.array(rows).T
        print(f"{name:8} {shares.mean():>12.1%} {delays.mean():>16.2f}")


if __name__ == "__main__":
    main()
