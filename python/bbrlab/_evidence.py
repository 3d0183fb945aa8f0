"""Published claims, and the test cases of the draft."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import json
from collections.abc import Sequence

from bbrlab import _bbrlab
from bbrlab._result import Record


def reproduce(*claims: str, seed: int = 1) -> Record:
    """Runs published claims, all 32 without names, and returns the document of `bbrlab reproduce --json`."""
    return Record(json.loads(_bbrlab.reproduce(list(claims), seed)))


def conform(*algorithms: str, cases: Sequence[int] = (), cells: Sequence[str] = ()) -> Record:
    """Runs the draft's test cases with these algorithms, and returns the document of `bbrlab conform --json`.

    `cases` are numbers, all without any; `cells` are rates and RTTs, such as "20mbit/100ms", by default the grid of 20.
    """
    if not algorithms:
        raise ValueError("conform: no algorithm; pass at least one, such as 'bbr3'")
    return Record(json.loads(_bbrlab.conform(list(algorithms), list(cases), list(cells))))
