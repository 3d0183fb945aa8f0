"""Several learners at one bottleneck, as a PettingZoo parallel environment."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bbrlab import _bbrlab
from bbrlab.gym import _FIRST, FIELDS, Draw, Reward, _Agent, _scenario, _spaces, names


class CongestionControlParallel(ParallelEnv):  # type: ignore[misc]  # pettingzoo has no types
    """Learners whose flows share a path; each has its own observation and reward."""

    metadata: dict[str, Any] = {"name": "bbrlab_congestion_control_v1", "render_modes": []}

    def __init__(
        self,
        agents: int,
        draw: Draw,
        *,
        step_s: float = 0.05,
        duration_s: float = 20.0,
        reward: Reward | None = None,
        delay_cost: float = 0.2,
        loss_cost: float = 2.0,
    ) -> None:
        self.draw, self.step_s, self.duration_s = draw, step_s, duration_s
        self.possible_agents = list(names(agents))
        self.agents: list[str] = []
        seen, action = _spaces()
        self.observation_spaces = dict.fromkeys(self.possible_agents, seen)
        self.action_spaces = dict.fromkeys(self.possible_agents, action)
        self.render_mode = None
        self._rules = {name: _Agent(reward, delay_cost, loss_cost) for name in self.possible_agents}
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        scenario = _scenario(self.draw, self._rng, self.duration_s, len(self.agents))
        self._envs = _bbrlab.Envs([scenario], list(range(len(self.agents))), self.step_s)
        for rules in self._rules.values():
            rules.restart()
        return {name: _FIRST.copy() for name in self.agents}, {name: {} for name in self.agents}

    def step(self, actions: dict[str, NDArray[np.float32]]) -> Any:
        pairs = [self._rules[name].act(actions[name]) for name in self.agents]
        raw, over = self._envs.step(np.array(pairs).tobytes())
        rows = np.frombuffer(raw).reshape(len(self.agents), len(FIELDS))
        stepped = {name: self._rules[name].see(row) for name, row in zip(self.agents, rows, strict=True)}
        ended = dict.fromkeys(stepped, over[0])
        if over[0]:
            self.agents = []
        return (
            {name: one[0] for name, one in stepped.items()},
            {name: one[1] for name, one in stepped.items()},
            dict.fromkeys(stepped, False),
            ended,
            {name: one[2] for name, one in stepped.items()},
        )
