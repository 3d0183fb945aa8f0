"""A/B tests of congestion controls: reports over the directories that `bbrlab ab start` writes.

>>> found = bbrlab.ab.report("test")             # doctest: +SKIP
>>> found.headline, found.lines, found.policy    # doctest: +SKIP
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import os
from collections.abc import Sequence

from bbrlab import _bbrlab
from bbrlab._run import _quoted
from bbrlab._study import Study

__all__ = ["Report", "report"]


class Report(Study):
    """The document of `bbrlab ab report --json`: arms, the check of the split, and `lines`, one comparison each."""

    __slots__ = ()

    @property
    def headline(self) -> str:
        """The page's answer."""
        return str(self._native.headline)

    @property
    def policy(self) -> str:
        """The policy that the test supports, as `bbrlab host policy` reads it."""
        return str(self._native.file)


def report(
    directories: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    classes: str | os.PathLike[str] | None = None,
    seed: int = 1,
) -> Report:
    """Reports an experiment, which ran on the hosts with these directories, or with these summaries of `bbrlab ab summary`.

    `classes` is a file of client networks and their classes. `bbrlab.read(directory)` returns the connections as a pyarrow table.
    Raises `ScenarioError` for a directory without a test, or tests that are not one experiment; Linux only.
    """
    all_of = [directories] if isinstance(directories, (str, os.PathLike)) else directories
    dirs = [os.fspath(path) for path in all_of]
    if not dirs:
        raise ValueError("report: no directory; pass at least one, as `bbrlab ab start --out` names it")
    path = None if classes is None else os.fspath(classes)
    native = _bbrlab.ab_report(dirs, path, seed)
    words = ["bbrlab ab report", *map(_quoted, dirs), *([f"--classes {_quoted(path)}"] if path else [])]
    found: Report = Report._of(native, " ".join([*words, f"--seed {seed}"]))
    return found
