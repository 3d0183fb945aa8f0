"""Sweeps: the product of some keys' values, on threads here or on the workers of an engine."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from bbrlab import _bbrlab
from bbrlab._run import PACKETS_MAX, Scenario

#: Seconds of work in a batch, so that an engine's own cost per task (1.9 ms in Dask, 0.6 ms in Ray) stays below 1 %.
BATCH_S = 1.0
#: Batches that wait at the engine, at most; they bound the client's memory.
WAITING_MAX = 64

Row = dict[str, Any]
Job = tuple[int, dict[str, Any], Scenario]


@dataclass
class Sweep:
    """The rows of a sweep, in the order of the combinations and seeds; with `out`, they are in its files."""

    rows: list[Row] = field(default_factory=list)
    out: str | None = None

    def to_arrow(self) -> Any:
        """One pyarrow table, in the order of the runs."""
        import pyarrow

        if self.out is None:
            return pyarrow.Table.from_pylist(self.rows)
        import pyarrow.dataset

        return pyarrow.dataset.dataset(self.out, format="parquet").to_table().sort_by("run")

    def __len__(self) -> int:
        return len(self.rows) if self.out is None else int(self.to_arrow().num_rows)


def sweep(
    base: Scenario | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    vary: Mapping[str, Sequence[Any]],
    repeat: int = 1,
    executor: Any = None,
    out: str | os.PathLike[str] | None = None,
    packets_max: float = PACKETS_MAX,
    progress: Callable[[float], object] | None = None,
    **keys: Any,
) -> Sweep:
    """Runs every combination of the values of `vary`, each with `repeat` successive seeds.

    `executor` is None (threads of this process), any `concurrent.futures.Executor`, a `dask.distributed.Client`, or "ray".
    The rows are the same whatever runs them. With `out`, a directory, they are written as Parquet (by pyarrow), one file a
    batch; a later call with the same runs does only those that are missing. A run that fails is a row with an `error`.
    """
    if repeat < 1:
        raise ValueError(f"repeat: {repeat} runs of each combination; pass at least 1")
    scenario = base if isinstance(base, Scenario) and not keys else Scenario(base, **keys)
    jobs = list(_jobs(scenario, vary, repeat))
    store = _Store(os.fspath(out)) if out is not None else None
    if store:
        known = store.keys()
        jobs = [job for job in jobs if _key(job[2]) not in known]
    rows: list[Row] = []
    done, total = 0, len(jobs)
    for batch in _results(jobs, executor, packets_max):
        done += len(batch)
        if store:
            store.write(batch)
        else:
            rows.extend(batch)
        if progress:
            progress(done / total)
    rows.sort(key=lambda row: row["run"])
    return Sweep(rows, store.path if store else None)


def _jobs(base: Scenario, vary: Mapping[str, Sequence[Any]], repeat: int) -> Iterator[Job]:
    for name, values in vary.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"vary: {name}: {values!r} is no list of values; pass at least one, such as ['10ms', '40ms']")
    first = int(base.to_dict().get("seed", 1))
    combinations = itertools.product(*vary.values())
    for nth, (values, seed) in enumerate(itertools.product(combinations, range(repeat))):
        axes = dict(zip(vary, values, strict=True))
        yield nth, axes, base.replace(**{"seed": first + seed, **axes})


def _key(scenario: Scenario) -> str:
    """Name of a run by its contents: scenario, seed and version."""
    text = f"{_bbrlab.__version__}\n{scenario.to_json()}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def run_batch(jobs: Sequence[Job], packets_max: float) -> list[Row]:
    """Runs some jobs, one after another. Called on workers."""
    return [_row(job, packets_max) for job in jobs]


def _row(job: Job, packets_max: float) -> Row:
    nth, axes, scenario = job
    row: Row = {"run": nth, "key": _key(scenario), "seed": int(scenario.to_dict().get("seed", 1))}
    for name, value in axes.items():
        row[name] = value if isinstance(value, (int, float, str)) else json.dumps(value, default=str)
    figures: Row = dict.fromkeys(_FIGURES)
    row["error"] = None
    try:
        # Figures come from the summary, so no series is recorded.
        native = _bbrlab.run(scenario.replace(sample="0s")._json, list(scenario._flows), 0, packets_max, None)
        document = json.loads(native.document)
        figures.update({name: of(document) for name, of in _FIGURES.items()})
        for group in document["groups"]:
            figures[f"goodput_bps.{group['cc']}"] = group["goodput_bps"]
            figures[f"share.{group['cc']}"] = group["share"]
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return {**row, **figures}


_FIGURES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "goodput_bps": lambda run: sum(flow["goodput_bps"] for flow in run["flows"]),
    "jain": lambda run: run["jain"],
    "utilisation": lambda run: run["bottleneck"]["utilisation"],
    "drop_ratio": lambda run: run["bottleneck"]["drop_ratio"],
    "queue_ms_mean": lambda run: run["bottleneck"]["queue_ms"]["mean"],
    "queue_ms_p95": lambda run: run["bottleneck"]["queue_ms"]["p95"],
    "rtt_ms_p50": lambda run: max((flow["rtt_ms"]["p50"] for flow in run["flows"] if flow["rtt_ms"]), default=None),
    "retransmit_ratio": lambda run: max(flow["retransmit_ratio"] for flow in run["flows"]),
}


def _results(jobs: list[Job], executor: Any, packets_max: float) -> Iterator[list[Row]]:
    """The batches' rows, as they are finished."""
    if not jobs:
        return
    begun = time.monotonic()
    yield run_batch(jobs[:1], packets_max)
    cost_s = max(time.monotonic() - begun, 1e-5)
    size = max(1, min(len(jobs), int(BATCH_S / cost_s)))
    batches = [jobs[at : at + size] for at in range(1, len(jobs), size)]
    if executor is None:
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            yield from _by_futures(threads, batches, packets_max)
    elif isinstance(executor, Executor):
        yield from _by_futures(executor, batches, packets_max)
    elif executor == "ray":
        yield from _by_ray(batches, packets_max)
    elif hasattr(executor, "submit") and hasattr(executor, "scheduler"):
        yield from _by_dask(executor, batches, packets_max)
    else:
        raise TypeError(f"executor: {executor!r} is none; pass a concurrent.futures.Executor, a dask Client, or 'ray'")


def _by_futures(executor: Executor, batches: Iterable[list[Job]], packets_max: float) -> Iterator[list[Row]]:
    waiting: set[Future[list[Row]]] = set()
    left = iter(batches)
    while True:
        more = itertools.islice(left, WAITING_MAX - len(waiting))
        waiting.update(executor.submit(run_batch, one, packets_max) for one in more)
        if not waiting:
            return
        finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        # Whatever has been finished is kept before an engine's error ends the sweep.
        for future in sorted(finished, key=lambda one: one.exception() is not None):
            yield future.result()


def _by_dask(client: Any, batches: Iterable[list[Job]], packets_max: float) -> Iterator[list[Row]]:
    from dask.distributed import as_completed

    left = iter(batches)

    def submit(batch: list[Job]) -> Any:
        return client.submit(run_batch, batch, packets_max, pure=False, retries=3)

    waiting: Any = as_completed([submit(one) for one in itertools.islice(left, WAITING_MAX)])
    for future in waiting:
        rows: list[Row] = future.result()
        future.release()
        for one in itertools.islice(left, 1):
            waiting.add(submit(one))
        yield rows


def _by_ray(batches: Iterable[list[Job]], packets_max: float) -> Iterator[list[Row]]:
    import ray

    task = ray.remote(max_retries=3)(run_batch)
    left = iter(batches)
    waiting = [task.remote(one, packets_max) for one in itertools.islice(left, WAITING_MAX)]
    while waiting:
        finished, waiting = ray.wait(waiting, num_returns=1)
        waiting.extend(task.remote(one, packets_max) for one in itertools.islice(left, 1))
        yield ray.get(finished[0])


class _Store:
    """A directory of Parquet files, one for each batch, each written whole or not at all."""

    def __init__(self, path: str) -> None:
        self.path = path
        os.makedirs(path, exist_ok=True)

    def keys(self) -> set[str]:
        """Keys of the runs that are there, except those that failed."""
        import pyarrow.dataset

        if not any(name.endswith(".parquet") for name in os.listdir(self.path)):
            return set()
        table = pyarrow.dataset.dataset(self.path, format="parquet").to_table(columns=["key", "error"])
        return {row["key"] for row in table.to_pylist() if row["error"] is None}

    def write(self, rows: list[Row]) -> None:
        """Writes a batch."""
        import pyarrow
        import pyarrow.parquet

        name = hashlib.sha256("".join(row["key"] for row in rows).encode()).hexdigest()[:32]
        part = os.path.join(self.path, f".{name}.part")
        try:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), part)
            os.replace(part, os.path.join(self.path, f"{name}.parquet"))
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
