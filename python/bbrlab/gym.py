# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Environments for learning congestion control, over the simulator.

`CongestionControl` is a Gymnasium environment, registered as `bbrlab/CongestionControl-v1`; `CongestionControlVector` steps many
simulations at once on Rust's threads; `parallel` makes a PettingZoo environment of several learners at one bottleneck.

- **Action**, in [-1, 1]: two numbers. The first multiplies the window by 2 to its power, the second sets the pacing rate: the
  window per smoothed RTT, times 2 to its power.
- **Observation**, a vector of float32: delivered rate over the largest seen, share of lost packets, mean RTT over the minimum less
  1, smoothed RTT over the minimum less 1, packets in flight over the window, and the logarithm of the window to base 2 over 20.
  The step's raw figures are in `info`, for wrappers that make other observations of them.
- **Reward** of a step: delivered rate over the largest seen, less `delay_cost` times (mean RTT over the minimum less 1), less
  `loss_cost` times the share of lost packets. `reward` replaces it; its argument is the step's raw figures.
- **Step**: `step_s` seconds; 0 for a smoothed round trip.
- **Episode**: `duration_s` of virtual time, then it is truncated; it never terminates by itself.
- **Scenarios**: `draw` returns the keys of a scenario for a random generator; by default `random_scenario`. Rivals are flows in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from bbrlab import _bbrlab
from bbrlab._extra import extra
from bbrlab._run import Scenario

with extra("gym"):
    import gymnasium
    import numpy as np
    from gymnasium import spaces
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

FIELDS: list[str] = list(_bbrlab.Envs.fields())
_AT = {name: index for index, name in enumerate(FIELDS)}
#: Largest value of each number of an observation; larger ones are cut off.
_HIGH = np.array([1, 1, 100, 100, 100, 1], dtype=np.float32)

Draw = Callable[[np.random.Generator], Mapping[str, Any]]
Reward = Callable[[Mapping[str, float], float], float]


def random_scenario(rng: np.random.Generator) -> dict[str, Any]:
    """A path of 5 to 50 Mbit/s, 10 to 100 ms, a buffer of 0.5 to 4 BDP, loss up to 1 %, alone or beside BBRv1, BBRv3 or CUBIC."""
    rival = rng.choice(["", "bbr1", "bbr3", "cubic"])
    return {
        "rate": f"{int(rng.uniform(5e6, 50e6))}bit",
        "rtt": f"{int(rng.uniform(10e3, 100e3))}us",
        "buffer": f"{rng.uniform(0.5, 4):.2f}bdp",
        "loss": f"{rng.choice([0.0, 0.0, 0.1, 1.0])}%",
        "flows": [str(rival)] if rival else [],
    }


def _scenario(draw: Draw, rng: np.random.Generator, duration_s: float, agents: int) -> str:
    """A scenario in JSON, the agents' flows first."""
    keys = dict(draw(rng))
    rivals = [keys.pop(name, []) for name in ("flow", "flows")]
    flows = [one for rival in rivals for one in ([rival] if isinstance(rival, str) else rival)]
    own = [f"fixed,name=agent{index}" for index in range(agents)]
    keys.setdefault("seed", int(rng.integers(1, 1 << 31)))
    duration = f"{round(duration_s * 1e6)}us"
    return Scenario({"duration": duration, **keys, "flows": [*own, *flows]}).to_json()


class _Agent:
    """Window, largest rate seen, and the rules that turn figures into observations and rewards."""

    def __init__(self, reward: Reward | None, delay_cost: float, loss_cost: float) -> None:
        self.own_reward, self.delay_cost, self.loss_cost = reward, delay_cost, loss_cost
        self.restart()

    def restart(self) -> None:
        self.cwnd, self.srtt_ms, self.rate_max_bps = 10.0, 0.0, 1.0

    def act(self, action: NDArray[np.floating[Any]]) -> tuple[float, float]:
        """Window in packets and pacing rate in bit/s."""
        self.cwnd = float(np.clip(self.cwnd * 2.0 ** float(action[0]), 2.0, 1e5))
        if self.srtt_ms <= 0.0:
            return self.cwnd, 0.0
        return self.cwnd, self.cwnd * 1448 * 8 / (self.srtt_ms / 1e3) * 2.0 ** float(action[1])

    def see(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.float32], float, dict[str, float]]:
        """Observation, reward and figures of a step."""
        delivered_bytes, lost, rtt_ms, min_rtt_ms, srtt_ms, inflight, cwnd, acks, others, queue, step_s = raw.tolist()
        self.srtt_ms = srtt_ms
        rate_bps = delivered_bytes * 8 / step_s
        self.rate_max_bps = max(self.rate_max_bps, rate_bps)
        share = rate_bps / self.rate_max_bps
        packets = delivered_bytes / 1448 + lost
        loss = lost / packets if packets else 0.0
        delay = rtt_ms / min_rtt_ms - 1.0 if min_rtt_ms else 0.0
        smooth = srtt_ms / min_rtt_ms - 1.0 if min_rtt_ms else 0.0
        figures = {
            "rate_bps": rate_bps,
            "others_bps": others * 8 / step_s,
            "loss": loss,
            "rtt_ms": rtt_ms,
            "min_rtt_ms": min_rtt_ms,
            "srtt_ms": srtt_ms,
            "inflight_packets": inflight,
            "cwnd_packets": cwnd,
            "acks": acks,
            "queue_packets": queue,
            "step_s": step_s,
        }
        seen = np.array([share, loss, delay, smooth, inflight / self.cwnd, np.log2(self.cwnd) / 20], dtype=np.float32)
        seen = np.clip(seen, 0, _HIGH)
        if self.own_reward is not None:
            return seen, float(self.own_reward(figures, share)), figures
        return seen, share - self.delay_cost * delay - self.loss_cost * loss, figures


def _spaces() -> tuple[spaces.Box, spaces.Box]:
    seen = spaces.Box(np.zeros_like(_HIGH), _HIGH, dtype=np.float32)
    return seen, spaces.Box(-1.0, 1.0, (2,), np.float32)


_FIRST = np.array([0, 0, 0, 0, 0, np.log2(10.0) / 20], dtype=np.float32)


class CongestionControl(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One learner's flow, in a simulation that is drawn anew for each episode."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self,
        draw: Draw = random_scenario,
        *,
        step_s: float = 0.05,
        duration_s: float = 20.0,
        reward: Reward | None = None,
        delay_cost: float = 0.2,
        loss_cost: float = 2.0,
    ) -> None:
        self.draw, self.step_s, self.duration_s = draw, step_s, duration_s
        seen, action = _spaces()
        self.observation_space, self.action_space = cast(Any, seen), cast(Any, action)
        self._agent = _Agent(reward, delay_cost, loss_cost)
        self._envs: _bbrlab.Envs | None = None
        #: The scenario of this episode, as JSON.
        self.scenario = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Draws a scenario. `options` are keys of a scenario that replace those drawn."""
        super().reset(seed=seed)
        own = options or {}
        self.scenario = _scenario(lambda rng: {**self.draw(rng), **own}, self.np_random, self.duration_s, 1)
        self._envs = _bbrlab.Envs([self.scenario], [0], self.step_s)
        self._agent.restart()
        return _FIRST.copy(), {"scenario": json.loads(self.scenario)}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Runs one step."""
        if self._envs is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        raw, over = self._envs.step(np.array(self._agent.act(action)).tobytes())
        seen, reward, figures = self._agent.see(np.frombuffer(raw))
        return seen, reward, False, over[0], figures


class CongestionControlVector(VectorEnv[NDArray[np.float32], NDArray[np.float32], NDArray[Any]]):
    """Several simulations that step at once; one that is over begins a new episode at its next step."""

    def __init__(
        self,
        num_envs: int,
        draw: Draw = random_scenario,
        *,
        step_s: float = 0.05,
        duration_s: float = 20.0,
        delay_cost: float = 0.2,
        loss_cost: float = 2.0,
    ) -> None:
        self.num_envs, self.draw, self.step_s, self.duration_s = num_envs, draw, step_s, duration_s
        self.delay_cost, self.loss_cost = delay_cost, loss_cost
        self.single_observation_space, self.single_action_space = _spaces()
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        self._envs: _bbrlab.Envs | None = None
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins an episode in each simulation. `seed`: of the first; the others follow."""
        if isinstance(seed, int):
            seed = [seed + index for index in range(self.num_envs)]
        seeds = seed if seed is not None else [None] * self.num_envs
        self._rngs = [np.random.default_rng(one) for one in seeds]
        scenarios = [_scenario(self.draw, rng, self.duration_s, 1) for rng in self._rngs]
        self._envs = _bbrlab.Envs(scenarios, [0], self.step_s)
        self._cwnd, self._srtt_ms, self._rate_max = (np.full(self.num_envs, value) for value in (10.0, 0.0, 1.0))
        self._over[:] = False
        return np.tile(_FIRST, (self.num_envs, 1)), {}

    def step(
        self, actions: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Runs one step of each simulation."""
        if self._envs is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        fresh = self._over.copy()
        for index in np.flatnonzero(fresh):
            self._envs.reset(int(index), _scenario(self.draw, self._rngs[index], self.duration_s, 1))
            self._cwnd[index], self._srtt_ms[index], self._rate_max[index] = 10.0, 0.0, 1.0
        scale = np.exp2(np.asarray(actions, dtype=np.float64))
        scale[fresh] = 1.0
        self._cwnd = np.clip(self._cwnd * scale[:, 0], 2.0, 1e5)
        with np.errstate(divide="ignore"):
            rate = np.where(self._srtt_ms > 0, self._cwnd * 1448 * 8e3 / self._srtt_ms * scale[:, 1], 0.0)
        raw, over = self._envs.step(np.stack([self._cwnd, rate], axis=1).tobytes())
        seen, reward = self._see(np.frombuffer(raw).reshape(self.num_envs, len(FIELDS)))
        self._over = np.array(over)
        if fresh.any():  # the first observation of a new episode, without a reward
            seen[fresh], reward[fresh], self._over[fresh] = _FIRST, 0.0, False
        return seen, reward, np.zeros(self.num_envs, dtype=bool), self._over.copy(), {}

    def _see(self, raw: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[Any]]:
        def of(name: str) -> NDArray[np.float64]:
            return raw[:, _AT[name]]

        self._srtt_ms = of("srtt_ms").copy()
        rate = of("delivered_bytes") * 8 / of("step_s")
        self._rate_max = np.maximum(self._rate_max, rate)
        packets = of("delivered_bytes") / 1448 + of("lost_packets")
        loss = of("lost_packets") / np.maximum(packets, 1e-9)
        floor = np.where(of("min_rtt_ms") > 0, of("min_rtt_ms"), np.inf)
        delay = np.maximum(of("rtt_ms") / floor - 1, 0) * np.isfinite(floor)
        smooth = np.maximum(of("srtt_ms") / floor - 1, 0) * np.isfinite(floor)
        share = rate / self._rate_max
        columns = [share, loss, delay, smooth, of("inflight_packets") / self._cwnd, np.log2(self._cwnd) / 20]
        reward = share - self.delay_cost * delay - self.loss_cost * loss
        return np.clip(np.stack(columns, axis=1).astype(np.float32), 0, _HIGH), reward


def parallel(agents: int, draw: Draw = random_scenario, **rules: Any) -> Any:
    """A PettingZoo parallel environment of `agents` learners at one bottleneck. `rules`: those of `CongestionControl`."""
    with extra("pettingzoo"):
        from bbrlab._pettingzoo import CongestionControlParallel

    return CongestionControlParallel(agents, draw, **rules)


def names(agents: int) -> Sequence[str]:
    """Names of the learners of `parallel`."""
    return [f"agent{index}" for index in range(agents)]


if "bbrlab/CongestionControl-v1" not in gymnasium.registry:
    gymnasium.register("bbrlab/CongestionControl-v1", entry_point="bbrlab.gym:CongestionControl")
