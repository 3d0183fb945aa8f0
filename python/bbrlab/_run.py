"""Scenarios and runs."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bbrlab import _bbrlab
from bbrlab._algorithm import Classes, is_pair, texts_of
from bbrlab._extra import extra
from bbrlab._result import Result

PACKETS_MAX = 1e9


class Scenario:
    """A scenario: checked, immutable, hashable. `replace` returns a changed copy."""

    __slots__ = ("_flows", "_json")
    _json: str
    _flows: Classes

    def __init__(self, source: Scenario | Mapping[str, Any] | str | os.PathLike[str] | None = None, **keys: Any) -> None:
        """From keywords, a dict, TOML text, or the path of a TOML or JSON file; keywords override it."""
        table, classes = _table(source)
        changed, own = _normal(keys)
        table.update(changed)
        object.__setattr__(self, "_flows", own if "flow" in changed else classes)
        object.__setattr__(self, "_json", json.dumps(table, sort_keys=True, default=_refused))
        try:
            _bbrlab.check(self._json)
        except _bbrlab.ScenarioError as error:
            raise _completed(error, table) from None

    def replace(self, **keys: Any) -> Scenario:
        """Returns a copy with these keys changed."""
        return Scenario(self, **keys)

    def to_dict(self) -> dict[str, Any]:
        """The keys that differ from the defaults."""
        return dict(json.loads(self._json))

    def filled(self) -> dict[str, Any]:
        """All keys, with every default filled in."""
        return dict(json.loads(_bbrlab.check(self._json)))

    def to_json(self) -> str:
        """The scenario in JSON, as `bbrlab run FILE` reads it."""
        return self._json

    @property
    def command(self) -> str:
        """The command that runs it."""
        if self._flows:
            return ""
        flags: list[str] = []
        for key, value in self.to_dict().items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, (dict, list)):
                    return "bbrlab run scenario.json"
                flags.append(f"--{key.replace('_', '-')} {_quoted(str(one))}")
        return " ".join(["bbrlab run", *flags])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Scenario is immutable; use .replace({name}=…)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and (self._json, self._flows) == (other._json, other._flows)

    def __hash__(self) -> int:
        return hash((self._json, self._flows))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (self._json, self._flows))

    def __repr__(self) -> str:
        keys = ", ".join(f"{key}={value!r}" for key, value in self.to_dict().items())
        return f"Scenario({keys})"


def _restored(text: str, flows: Classes) -> Scenario:
    scenario = object.__new__(Scenario)
    object.__setattr__(scenario, "_json", text)
    object.__setattr__(scenario, "_flows", flows)
    return scenario


def _quoted(text: str) -> str:
    plain = all(letter.isalnum() or letter in "=,.:/@*%+-_" for letter in text)
    return text if plain and text else "'" + text.replace("'", "'\\''") + "'"


def _table(source: Any) -> tuple[dict[str, Any], Classes]:
    if source is None:
        return {}, ()
    if isinstance(source, Scenario):
        return source.to_dict(), source._flows
    if isinstance(source, Mapping):
        return _normal(source)
    if isinstance(source, str) and ("=" in source or "\n" in source):
        return json.loads(_bbrlab.scenario_of_toml(source, "scenario")), ()
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            document = json.loads(text)
            return dict(document.get("scenario", document)), ()
        return json.loads(_bbrlab.scenario_of_toml(text, str(path))), ()
    raise TypeError(f"a scenario is a dict, TOML text or a path, not {type(source).__name__}")


def _normal(keys: Mapping[str, Any]) -> tuple[dict[str, Any], Classes]:
    """Keys of the scenario language: `flows` is `flow`, and classes stand for flows of the algorithm `fixed`."""
    table = {key: value for key, value in keys.items() if value is not None}
    classes: Classes = ()
    if "flows" in table:
        if "flow" in table:
            raise TypeError("flows and flow are the same key; pass one")
        table["flow"] = table.pop("flows")
    if "flow" in table:
        given = table["flow"]
        flows = [given] if isinstance(given, str) or callable(given) or is_pair(given) else given
        if not isinstance(flows, Sequence) or isinstance(flows, bytes):
            raise TypeError(f"flows: a list of flows, not {type(given).__name__}")
        if not flows:
            raise _scenario_error("flow", None, "no flow", "write at least one, such as flows=['bbr1']")
        table["flow"], classes = texts_of(flows)
    for key, value in table.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _scenario_error(key, str(value), f"{value} is no number", "write a finite one")
    return table, classes


def _refused(value: object) -> Any:
    raise TypeError(f"{value!r} of type {type(value).__name__} is no value of a scenario; pass a text, a number or a list")


def _completed(error: _bbrlab.ScenarioError, table: Mapping[str, Any]) -> _bbrlab.ScenarioError:
    """Adds the value found, from the scenario, and the accepted values, from the table of keys."""
    found: Any = table
    for name in re.findall(r"[^.\[\]]+", error.where):
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, TypeError, ValueError):
            found = None
            break
    if error.found is None and error.where and found is not None:
        error.found = str(found)
    if error.accepted is None and error.where:
        keys = json.loads(_bbrlab.keys())["keys"]
        own = [key for key in keys if key["name"] == re.split(r"[.\[]", error.where)[0]]
        error.accepted = " ".join(line.strip() for line in own[0]["meaning"]).split("  ")[0] if own else None
    return error


def _scenario_error(where: str, found: str | None, problem: str, accepted: str) -> _bbrlab.ScenarioError:
    error = _bbrlab.ScenarioError(f"{where}: {problem}; {accepted}")
    error.where, error.found, error.accepted = where, found, accepted
    return error


def run(
    scenario: Scenario | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    packets: int = 0,
    packets_max: float = PACKETS_MAX,
    progress: bool | Callable[[float], object] = False,
    **keys: Any,
) -> Result:
    """Runs a scenario in the simulator.

    `scenario` is a `Scenario`, a dict, TOML text or a path; keywords are keys of the scenario language and override it.
    `packets` records up to that many packets. A run of more than `packets_max` packets is refused. `progress` shows a bar
    of tqdm, or is called with the share that is done. Other threads go on, and Ctrl-C stops the run.
    """
    whole = scenario if isinstance(scenario, Scenario) and not keys else Scenario(scenario, **keys)
    bar = _Bar() if progress is True else None
    tick = bar.tick if bar else progress if callable(progress) else None
    try:
        native = _bbrlab.run(whole._json, list(whole._flows), packets, float(packets_max), tick)
    finally:
        if bar:
            bar.close()
    return Result(native.document, whole, native)


async def arun(scenario: Any = None, **keys: Any) -> Result:
    """Runs a scenario like `run`, on a thread, while the event loop goes on."""
    return await asyncio.to_thread(run, scenario, **keys)


class _Bar:
    """A bar of tqdm, which has to be installed."""

    def __init__(self) -> None:
        with extra("progress"):
            from tqdm.auto import tqdm

        self.bar = tqdm(total=100, unit="%", leave=False)

    def tick(self, done: float) -> None:
        self.bar.update(round(done * 100) - self.bar.n)

    def close(self) -> None:
        self.bar.close()
