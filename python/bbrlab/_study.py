"""Advice, tuning, studies of users, and replays of recorded logs."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbrlab import _bbrlab, _executor
from bbrlab._record import Record
from bbrlab._result import Page
from bbrlab._run import _quoted

#: A population: the path of its file, TOML text, a table as in the file, or the list of its `[[path]]` tables.
Population = str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Study(Record):
    """The document of a study, with its page."""

    __slots__ = ("_command", "_native")

    def __init__(self, table: dict[str, Any], native: Any = None, command: str = "") -> None:
        super().__init__(table)
        self._native = native
        self._command = command

    @classmethod
    def _of(cls, native: Any, command: str) -> Any:
        return cls(json.loads(native.document), native, command)

    def to_dict(self) -> dict[str, Any]:
        """The document as plain Python values."""
        return dict(json.loads(json.dumps(self._table)))

    def to_json(self) -> str:
        """The document, as the command's `--json` writes it."""
        return f"{self._native.document}\n"

    def plot(self) -> Page:
        """The command's page, for a notebook."""
        return Page(self._native.html(self._command))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the command's page, which works offline."""
        self.plot().save(path)

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def __repr__(self) -> str:
        return str(self._native.headline) if self._native.headline else super().__repr__()

    def __reduce__(self) -> tuple[Any, ...]:
        native = self._native
        kept = _Kept(native.document, native.headline, native.file, native.html(self._command))
        return (_restored, (type(self), kept, self._command))


@dataclass(frozen=True)
class _Kept:
    """A pickled study: its document and its page, without the native object."""

    document: str
    headline: str
    file: str
    page: str

    def html(self, command: str) -> str:
        return self.page


def _restored(kind: type[Study], kept: _Kept, command: str) -> Study:
    study: Study = kind._of(kept, command)
    return study


class Advice(Study):
    """An advice: the document of `bbrlab advise --json`."""

    __slots__ = ()

    @property
    def choice(self) -> str:
        """The advised algorithm, in the syntax of `--flow`."""
        advice = self._table["advice"]
        return str(advice["candidates"][advice["choice"]]["flow"])

    @property
    def candidates(self) -> dict[str, Record]:
        """Each algorithm's figures, the one in use first."""
        return {one["flow"]: Record(one) for one in self._table["advice"]["candidates"]}

    @property
    def sure(self) -> float:
        """Share of resampled sets of paths in which the choice is the same."""
        return float(self._table["advice"]["sure"])

    @property
    def headline(self) -> str:
        """The command's first sentence."""
        return str(self._native.headline)


class Tuned(Study):
    """A tuning: the document of `bbrlab tune --json`."""

    __slots__ = ()

    @property
    def flow(self) -> str:
        """The setting, in the syntax of `--flow`."""
        return str(self._table["tuned"]["flow"])

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the setting."""
        return dict(self._table["tuned"]["parameters"])

    @property
    def headline(self) -> str:
        """One sentence: how the setting does on unseen paths, compared with the defaults."""
        return str(self._native.headline)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that `--flow CC,params=FILE` takes."""
        Path(path).write_text(self._native.file, encoding="utf-8")


def advise(
    measurement: str | os.PathLike[str] | None = None,
    *,
    rate: Any = None,
    rtt: Any = None,
    buffer: Any = None,
    loss: Any = None,
    rivals: Any = None,
    rival_flows: Sequence[str] | None = None,
    population: Population | None = None,
    current: str | None = None,
    algorithms: Sequence[str] = (),
    application: str = "bulk",
    objective: str = "balanced",
    draws: int | None = None,
    duration: str | None = None,
    seed: int = 1,
    trace: str | os.PathLike[str] | None = None,
    **conditions: Any,
) -> Advice:
    """Recommends an algorithm for a path or a population of paths, as `bbrlab advise` does.

    `measurement` is a file with the output of `ss -tin` or `iperf3 -J`, or TCP_INFO as CSV. An unknown `rate`, `rtt`, `buffer`,
    `loss` or number of `rivals` may be a range, "20mbit..50mbit". `population` replaces all of them. `application` is what the
    algorithms are judged by: "bulk", "video", "live" or "calls". Other keywords are keys of
    the scenario language that apply to every path (`aqm`, `policer`, …); `path="starlink"` is a typical path by name, whose
    values the others replace. Raises `ScenarioError` for values that are not accepted.
    """
    known = {"rate": rate, "rtt": rtt, "buffer": buffer, "loss": loss, "rivals": rivals}
    given = {name: str(value) for name, value in known.items() if value is not None}
    if population is not None and (given or measurement is not None or trace is not None or rival_flows is not None):
        raise ValueError("population: it lists the paths; leave out the measurement and what describes one path")
    request: dict[str, Any] = {**given, "algorithms": list(algorithms), "objective": objective, "seed": seed}
    request["for"] = application
    flags: list[tuple[str, Any]] = [*given.items()]
    if application != "bulk":
        flags.append(("for", application))
    if rival_flows is not None:
        request["rival_flows"] = list(rival_flows)
        flags.append(("rival-flows", ";".join(rival_flows)))
    request["conditions"] = [(key, str(value)) for key, value in conditions.items()]
    flags += [(key, value) for key, value in conditions.items()]
    for name, value in (("current", current), ("draws", draws), ("duration", duration)):
        if value is not None:
            request[name] = value
            flags.append((name, value))
    if algorithms:
        flags.append(("algorithms", ";".join(algorithms)))
    source = None
    if measurement is not None:
        source = ("measurement", os.fspath(measurement))
        flags.append(("from", source[1]))
    if population is not None:
        source = _source(population)
        flags.append(("population", source[1] if source[0] == "path" else "population.toml"))
    path = None if trace is None else os.fspath(trace)
    flags += [("trace", path)] if path else []
    flags += [("objective", objective), ("seed", seed)]
    native = _bbrlab.advise(json.dumps(request), source, path)
    advice: Advice = Advice._of(native, _command("advise", flags))
    return advice


def tune(
    algorithm: str,
    population: Population,
    *,
    parameters: Sequence[str] = (),
    objective: str = "balanced",
    rivals: bool = True,
    settings: int = 16,
    generations: int = 8,
    paths: int = 12,
    held_out: int = 60,
    seed: int = 1,
) -> Tuned:
    """Searches parameters of an algorithm for a population of paths, and judges them on unseen paths, as `bbrlab tune` does.

    `settings` in each of `generations` are run on `paths` paths each; `held_out` others judge the outcome. Without `rivals` the
    answer does not show what the setting takes from other flows.
    """
    source = _source(population)
    search = {
        "algorithm": algorithm, "parameters": list(parameters), "objective": objective, "rivals": rivals, "settings": settings,
        "generations": generations, "paths": paths, "held_out": held_out, "seed": seed,
    }  # fmt: skip
    native = _bbrlab.tune(json.dumps(search), source)
    flags: list[tuple[str, Any]] = [("population", source[1] if source[0] == "path" else "population.toml")]
    flags += [("parameters", ",".join(parameters))] if parameters else []
    flags += [
        (name.replace("_", "-"), search[name]) for name in ("objective", "settings", "generations", "paths", "held_out", "seed")
    ]
    command = _command(f"tune {algorithm}", flags) + ("" if rivals else " --no-rivals")
    tuned: Tuned = Tuned._of(native, command)
    return tuned


def cdn(
    population: Population | None = None,
    *,
    algorithms: Sequence[str] | None = None,
    users: int | None = None,
    activation: str | None = None,
    seed: int = 1,
    executor: Any = None,
) -> Study:
    """Runs each user of a population under every algorithm, as an A/B test of a content network: `bbrlab cdn`.

    `population` is a file of distributions (.toml) or of users (.csv, .parquet), TOML text, or a table as in the file; without
    one, it is that of the claim CDN. The last algorithm is the control. `executor` shares the users' runs among workers, as in
    `sweep`; they need no file.
    """
    source = None if population is None else _source(population)
    of: dict[str, Any] = {
        "source": None,
        "place": "population",
        "algorithms": None if algorithms is None else list(algorithms),
        "users": users,
        "activation": activation,
        "seed": seed,
    }
    if source is not None and source[0] == "path":
        path = Path(source[1])
        of.update(source=(path.suffix.removeprefix("."), path.read_bytes()), place=source[1])
    elif source is not None:
        of["source"] = (source[0], source[1].encode())
    if executor is None:
        native = _bbrlab.cdn(of)
    else:
        native = _bbrlab.cdn_conclude(of, _parts(of, executor))
    flags: list[tuple[str, Any]] = [("algorithms", ";".join(algorithms))] if algorithms else []
    flags += [(name, value) for name, value in (("users", users), ("activation", activation)) if value is not None]
    name = "" if source is None else f" {_quoted(source[1])}" if source[0] == "path" else " population.toml"
    study: Study = Study._of(native, _command(f"cdn{name}", [*flags, ("seed", seed)]))
    return study


#: Runs of a task: users take some milliseconds each, and a task has to draw all of them.
_RUNS = 100


def _parts(of: dict[str, Any], executor: Any) -> list[str]:
    """The runs of users, in parts, each run by a task."""
    count = _bbrlab.cdn_count(of)
    return _executor.ordered(functools.partial(_part, of=of, count=count), range(0, count, _RUNS), executor)


def _part(task: tuple[int, int], of: dict[str, Any], count: int) -> tuple[int, str]:
    nth, first = task
    return nth, _bbrlab.cdn_part(of, first, min(first + _RUNS, count))


def replay(*files: str | os.PathLike[str]) -> Record:
    """Replays recorded decisions of a kernel with core's, call by call, and returns the document of `bbrlab replay --json`."""
    if not files:
        raise ValueError("replay: no file; pass at least one, as `bbrlab record` writes it")
    return Record(json.loads(_bbrlab.replay([os.fspath(file) for file in files])))


def _source(population: Population) -> tuple[str, str]:
    if isinstance(population, Mapping):
        return "json", json.dumps(population)
    if isinstance(population, str) and ("\n" in population or "=" in population):
        return "toml", population
    if isinstance(population, (str, os.PathLike)):
        return "path", os.fspath(population)
    if isinstance(population, Sequence):
        return "json", json.dumps({"path": list(population)})
    raise TypeError(f"a population is a path, TOML text, a dict or a list of paths, not {type(population).__name__}")


def _command(name: str, flags: Sequence[tuple[str, Any]]) -> str:
    return " ".join([f"bbrlab {name}", *(f"--{flag.replace('_', '-')} {_quoted(str(value))}" for flag, value in flags)])
