"""Published claims, and the test cases of the draft."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from typing import Any

from bbrlab import _bbrlab, _executor
from bbrlab._record import Record


def reproduce(*claims: str, seed: int = 1, executor: Any = None) -> Record:
    """Runs published claims, all 41 without names, and returns the document of `bbrlab reproduce --json`.

    `executor` runs one claim a task, as in `sweep`; without one they run on threads here.
    """
    if executor is None:
        return Record(json.loads(_bbrlab.reproduce(list(claims), seed)))
    known = _bbrlab.claims()
    # An unknown name is refused here, before an engine is asked.
    chosen = [name for name in known if not claims or name in claims] if set(claims) <= set(known) else list(claims)
    parts = _executor.ordered(functools.partial(_claim, seed=seed), chosen, executor)
    whole = parts[0]
    whole["experiments"] = [experiment for part in parts for experiment in part["experiments"]]
    whole["holds"] = {kind: sum(part["holds"][kind] for part in parts) for kind in whole["holds"]}
    return Record(whole)


def conform(*algorithms: str, cases: Sequence[int] = (), cells: Sequence[str] = (), executor: Any = None) -> Record:
    """Runs the draft's test cases with these algorithms, and returns the document of `bbrlab conform --json`.

    `cases` are numbers, all without any; `cells` are rates and RTTs, such as "20mbit/100ms", by default the grid of 20. `executor`
    runs one case of one algorithm a task, as in `sweep`; without one they run on threads here.
    """
    if not algorithms:
        raise ValueError("conform: no algorithm; pass at least one, such as 'bbr3'")
    if executor is None:
        return Record(json.loads(_bbrlab.conform(list(algorithms), list(cases), list(cells))))
    numbers = [number for number in _bbrlab.case_numbers() if not cases or number in cases]
    numbers += [number for number in cases if number not in numbers]
    tasks = list(itertools.product(algorithms, numbers))
    parts = _executor.ordered(functools.partial(_case, cells=list(cells)), tasks, executor)
    whole = parts[0]
    whole["cases"] = [case for part in parts for case in part["cases"]]
    return Record(whole)


def score(
    *algorithms: str | type,
    compare: Sequence[str] = (),
    card: str = "rfc9743",
    criteria: Sequence[str] = (),
    set: int = 0,
    repeat: int = 3,
) -> Record:
    """Scores algorithms by the criteria of RFC 9743, and returns the document of `bbrlab score --json`.

    One of them may be a class, an algorithm written in Python; its name is the class's.
    `compare` are the references, by default CUBIC, Reno, BBRv1 and BBRv3; `criteria` are sections such as "5.1.2", all without any.
    `card` may also be "situations" or "applications"; `set` other than 0 draws the paths anew, and `repeat` is the number of seeds.
    """
    if not algorithms:
        raise ValueError("score: no algorithm; pass at least one, such as 'bbr3'")
    if repeat < 1:
        raise ValueError(f"score: repeat is {repeat}; pass at least 1")
    classes = [one for one in algorithms if not isinstance(one, str)]
    if len(classes) > 1 or not all(callable(one) for one in classes):
        raise ValueError(f"score: {classes[-1]!r}; pass names, and at most one class with a method on_ack")
    # The algorithm `fixed` stands for the class, as in `run`.
    names = [one if isinstance(one, str) else "fixed" for one in algorithms]
    if classes and any(name.split(",")[0] == "fixed" for name in [*(one for one in algorithms if isinstance(one, str)), *compare]):
        raise ValueError("score: fixed stands for a class here; score it without one")
    own = (getattr(classes[0], "__name__", type(classes[0]).__name__), classes[0]) if classes else None
    return Record(json.loads(_bbrlab.score(names, list(compare), card, list(criteria), set, repeat, own)))


def _claim(task: tuple[int, str], seed: int) -> tuple[int, dict[str, Any]]:
    nth, name = task
    return nth, json.loads(_bbrlab.reproduce([name], seed))


def _case(task: tuple[int, tuple[str, int]], cells: list[str]) -> tuple[int, dict[str, Any]]:
    nth, (algorithm, number) = task
    return nth, json.loads(_bbrlab.conform([algorithm], [number], cells))
