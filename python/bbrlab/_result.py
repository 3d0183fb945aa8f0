"""Results: the command's document with attributes, its series as Arrow tables, and its page."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbrlab import _bbrlab
from bbrlab._extra import extra
from bbrlab._figures import Bottleneck, Flow, Group, Run
from bbrlab._record import Record

if TYPE_CHECKING:
    from bbrlab._run import Scenario


class Page:
    """A page of HTML: shown in a notebook, or saved. It needs no network."""

    def __init__(self, text: str, height: int = 720) -> None:
        self.text = text
        self.height = height

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page."""
        Path(path).write_text(self.text, encoding="utf-8")

    def _repr_html_(self) -> str:
        source = html.escape(self.text, quote=True)
        return f'<iframe title="bbrlab" srcdoc="{source}" style="width:100%;height:{self.height}px;border:0"></iframe>'


class Result:
    """The result of a run, or of several with successive seeds (`repeat`)."""

    def __init__(self, document: str, scenario: Scenario, native: Any = None) -> None:
        self._document = document
        self._table: dict[str, Any] = json.loads(document)
        self._run = native
        #: The scenario that was run.
        self.scenario = scenario

    def to_json(self) -> str:
        """The document, as `bbrlab run --json` writes it."""
        return self._document + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The document as plain Python values."""
        return dict(json.loads(self._document))

    @property
    def runs(self) -> list[Run]:
        """The document of each run."""
        return [Run(one) for one in self._table.get("runs", [self._table])]

    @property
    def flows(self) -> list[Flow]:
        """The flows of the (first) run."""
        return [Flow(one) for one in self._first["flows"]]

    @property
    def groups(self) -> dict[str, Group]:
        """The flows of each congestion control together, by name."""
        return {one["cc"]: Group(one) for one in self._first["groups"]}

    @property
    def bottleneck(self) -> Bottleneck:
        """The bottleneck link."""
        return Bottleneck(self._first["bottleneck"])

    @property
    def summary(self) -> Record | None:
        """Medians and intervals over the seeds, if there are several."""
        summary = self._table.get("summary")
        return None if summary is None else Record(summary)

    @property
    def seed(self) -> int:
        """The (first) seed."""
        return int(self._table["seed"])

    @property
    def jain(self) -> float:
        """Jain's fairness index."""
        return float(self._first["jain"])

    @property
    def _first(self) -> dict[str, Any]:
        first: dict[str, Any] = self._table.get("runs", [self._table])[0]
        return first

    @property
    def _native(self) -> Any:
        if self._run is None:
            from bbrlab._run import run

            self._run = run(self.scenario)._run  # the same seed, so the same series
        return self._run

    @property
    def trace(self) -> _bbrlab.Table:
        """Series of the flows: one row for each sample and flow."""
        table: _bbrlab.Table = self._native.trace()
        return table

    @property
    def links(self) -> _bbrlab.Table:
        """Series of the links: one row for each sample and link."""
        table: _bbrlab.Table = self._native.links()
        return table

    @property
    def packets(self) -> _bbrlab.Table:
        """Recorded packets; empty unless `run` was asked to record them."""
        table: _bbrlab.Table = self._native.packets()
        return table

    def plot(self) -> Page:
        """The report's figures, for a notebook."""
        return Page(self._native.html(self.scenario.command))

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report of the command, one page that works offline."""
        self.plot().save(path)

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def __repr__(self) -> str:
        lines = [f"{'flow':<12} {'goodput':>14} {'RTT p50':>10} {'retransmit':>11}"]
        for flow in self._first["flows"]:
            rtt = flow["rtt_ms"]
            median = f"{rtt['p50']:.1f} ms" if rtt else "-"
            share = f"{flow['retransmit_ratio'] * 100:.2f} %"
            lines.append(f"{flow['name']:<12} {flow['goodput_bps'] / 1e6:>7.2f} Mbit/s {median:>10} {share:>11}")
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self._document == other._document

    def __hash__(self) -> int:
        return hash(self._document)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Result, (self._document, self.scenario))


class Comparison:
    """Figures of two results side by side, group by group."""

    def __init__(self, first: Result, second: Result) -> None:
        self.first = first
        self.second = second

    def rows(self) -> list[dict[str, Any]]:
        """One row for each figure that both have: its name, both values, and the second over the first."""
        rows = []
        for name, of in _FIGURES.items():
            values = [[of(Run(run)) for run in result._table.get("runs", [result._table])] for result in self._both]
            a, b = (_median([value for value in one if value is not None]) for one in values)
            if a is not None and b is not None:
                rows.append({"figure": name, "first": a, "second": b, "ratio": b / a if a else None})
        return rows

    @property
    def _both(self) -> tuple[Result, Result]:
        return (self.first, self.second)

    def __repr__(self) -> str:
        lines = [f"{'figure':<22} {'first':>12} {'second':>12} {'ratio':>8}"]
        for row in self.rows():
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
            lines.append(f"{row['figure']:<22} {row['first']:>12.4g} {row['second']:>12.4g} {ratio:>8}")
        return "\n".join(lines)


def _median(values: list[float]) -> float | None:
    values = sorted(values)
    middle = len(values) // 2
    if not values:
        return None
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


_FIGURES: dict[str, Callable[[Run], float]] = {
    "goodput_bps": lambda run: sum(flow.goodput_bps for flow in run.flows),
    "queue_ms.mean": lambda run: run.bottleneck.queue_ms.mean,
    "queue_ms.p95": lambda run: run.bottleneck.queue_ms.p95,
    "drop_ratio": lambda run: run.bottleneck.drop_ratio,
    "utilisation": lambda run: run.bottleneck.utilisation,
    "jain": lambda run: run.jain,
}


def compare(first: Result, second: Result) -> Comparison:
    """Compares the figures of two results; of repeated runs their medians."""
    return Comparison(first, second)


def read(path: str | os.PathLike[str]) -> Any:
    """Reads what bbrlab has written.

    A result in JSON, of the command or of `Result.to_json`, is a `Result`, whose series are computed anew when they are needed; any
    other document in JSON is a `Record`. Tables (.csv, .parquet), the directory of a sweep and that of an A/B test are pyarrow
    tables; they need the package pyarrow. Raises `ValueError` for other files.
    """
    path = Path(path)
    if path.is_dir() or path.suffix == ".parquet":
        return _tables(path)
    if path.suffix == ".csv":
        with extra("arrow"):
            import pyarrow.csv

        return pyarrow.csv.read_csv(path)
    from bbrlab._run import Scenario

    text = path.read_text(encoding="utf-8").rstrip("\n")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error}); read takes .json, .csv, .parquet and directories of tables") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: not a document of bbrlab")
    is_run = "scenario" in document and ("flows" in document or "runs" in document)
    return Result(text, Scenario(document["scenario"])) if is_run else Record(document)


def _tables(path: Path) -> Any:
    with extra("arrow"):
        import pyarrow.dataset

    if path.is_file():
        return pyarrow.dataset.dataset(path, format="parquet").to_table()
    # The command's sweep has its table beside the series of single runs.
    files = [path / "runs.parquet"] if (path / "runs.parquet").is_file() else sorted(path.rglob("*.parquet"))
    if not files:
        raise ValueError(f"{path}: it holds no .parquet; name the directory of a sweep or of an A/B test")
    dataset = pyarrow.dataset.dataset(files, format="parquet", partitioning="hive", partition_base_dir=str(path))
    return dataset.to_table()
