"""What there is: algorithms, their parameters, and the scenario language."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import json
from typing import Any

from bbrlab import _bbrlab


def algorithms() -> list[dict[str, Any]]:
    """All algorithms, each with name, summary, source, and whether it needs pacing."""
    return list(json.loads(_bbrlab.algorithms()))


def parameters(algorithm: str) -> list[dict[str, Any]]:
    """The parameters of an algorithm, each with unit, default, range, meaning and source."""
    return list(json.loads(_bbrlab.parameters(algorithm)))


def keys() -> dict[str, list[dict[str, Any]]]:
    """The keys of a scenario, which are the keywords of `run`, and the options of a flow."""
    return dict(json.loads(_bbrlab.keys()))
