"""A/B tests of congestion controls: reports over the directories that `bbrlab ab start` writes, and their summaries.

>>> found = bbrlab.ab.report("test")             # doctest: +SKIP
>>> found.headline, found.lines, found.policy    # doctest: +SKIP
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence

from bbrlab import _bbrlab
from bbrlab._extra import extra
from bbrlab._files import opened
from bbrlab._run import _quoted
from bbrlab._study import Study

__all__ = ["Report", "report", "summary"]


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

    A directory or summary may be at a URL that pyarrow or fsspec opens, such as `s3://bucket/test`; it is copied to a temporary
    directory first. `classes` is a file of client networks and their classes. `bbrlab.read(directory)` returns the connections as a
    pyarrow table.
    Raises `ScenarioError` for a directory without a test, or tests that are not one experiment; Linux only.
    """
    all_of = [directories] if isinstance(directories, (str, os.PathLike)) else directories
    dirs = [os.fspath(path) for path in all_of]
    if not dirs:
        raise ValueError("report: no directory; pass at least one, as `bbrlab ab start --out` names it")
    path = None if classes is None else os.fspath(classes)
    with _here(dirs) as local:
        native = _bbrlab.ab_report(local, path, seed)
    words = ["bbrlab ab report", *map(_quoted, dirs), *([f"--classes {_quoted(path)}"] if path else [])]
    found: Report = Report._of(native, " ".join([*words, f"--seed {seed}"]))
    return found


def summary(directory: str | os.PathLike[str], *, classes: str | os.PathLike[str] | None = None, seed: int = 1) -> str:
    """Summarises a host's records for a report, without any single record: the text of the file that `bbrlab ab summary` writes.

    All summaries of an experiment and their report take the same `classes`. Raises `ScenarioError` for a directory without a test,
    or a test that is not assigned by connection; Linux only.
    """
    with _here([os.fspath(directory)]) as local:
        return _bbrlab.ab_summary(local[0], None if classes is None else os.fspath(classes), seed)


@contextlib.contextmanager
def _here(paths: list[str]) -> Iterator[list[str]]:
    """These paths, with local copies in the place of URLs."""
    if not any("://" in path for path in paths):
        yield paths
        return
    with extra("arrow"):
        import pyarrow.fs

    with tempfile.TemporaryDirectory() as folder:

        def copied(nth: int, path: str) -> str:
            files, root = opened(path)
            # Its own name, for what an error says.
            place = os.path.join(folder, str(nth), os.path.basename(root.rstrip("/")))
            kind = files.get_file_info(root).type
            if kind == pyarrow.fs.FileType.NotFound:
                raise FileNotFoundError(path)
            os.makedirs(place if kind == pyarrow.fs.FileType.Directory else os.path.dirname(place))
            pyarrow.fs.copy_files(root, place, source_filesystem=files, destination_filesystem=pyarrow.fs.LocalFileSystem())
            return place

        yield [copied(nth, path) if "://" in path else path for nth, path in enumerate(paths)]
