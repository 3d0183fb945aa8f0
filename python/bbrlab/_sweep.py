"""Sweeps: the product of some keys' values, on threads here or on the workers of an engine."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import bisect
import functools
import hashlib
import inspect
import io
import itertools
import json
import math
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from bbrlab import _bbrlab, _executor
from bbrlab._extra import extra
from bbrlab._files import opened
from bbrlab._run import PACKETS_MAX, Scenario

Row = dict[str, Any]
#: Number, key, axes, and the scenario, or what is wrong with this combination of values.
Job = tuple[int, str, dict[str, Any], Scenario | str]


@dataclass
class Sweep:
    """The rows of a sweep, in the order of the combinations and seeds; with `out`, they are in its files."""

    rows: list[Row] = field(default_factory=list)
    out: str | None = None
    partition: tuple[str, ...] = ()
    _runs: int = 0
    _plan: tuple[Scenario, Mapping[str, Sequence[Any]], int] | None = None

    def to_arrow(self) -> Any:
        """One pyarrow table, in the order of the runs. Runs of other sweeps in the same place are left out."""
        with extra("arrow"):
            import pyarrow

        if self.out is None or self._plan is None:
            return pyarrow.Table.from_pylist(self.rows)
        keys = pyarrow.array(job[1] for job in _jobs(*self._plan))
        return _Store(self.out, _kinds(self._plan[1]), self.partition).table(keys)

    def __len__(self) -> int:
        return self._runs


def sweep(
    base: Scenario | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    vary: Mapping[str, Sequence[Any]],
    repeat: int = 1,
    executor: Any = None,
    out: str | os.PathLike[str] | None = None,
    partition: Sequence[str] = (),
    packets_max: float = PACKETS_MAX,
    progress: Callable[[float], object] | None = None,
    **keys: Any,
) -> Sweep:
    """Runs every combination of the values of `vary`, each with `repeat` successive seeds.

    Rows have the columns of `bbrlab sweep`: `seed`, `axis_NAME` and its figures; and `run`, the number of the combination and seed,
    `key`, a name by scenario, seed and version, and `error`. A run that fails is a row with an `error`.

    `executor` is None (threads of this process), any `concurrent.futures.Executor` (processes, `mpi4py.futures`), a
    `dask.distributed.Client`, or "ray". The rows are the same whatever runs them.

    With `out`, a directory or a URL that pyarrow or fsspec opens, they are written as Parquet (by pyarrow), one file a batch, whole
    or not at all; a later call with the same runs does only those that are missing. `partition` names axes that become directories,
    `axis_rtt=10ms/`. The rows are not kept in memory then, and runs are made as the engine asks for them, so there may be any
    number of them.
    """
    _executor.check(executor)
    if repeat < 1:
        raise ValueError(f"repeat: {repeat} runs of each combination; pass at least 1")
    scenario = base if isinstance(base, Scenario) and not keys else Scenario(base, **keys)
    _check(scenario, vary)
    if out is not None and (unknown_source := _sourceless(scenario, vary)):
        raise ValueError(
            f"out: runs are found again by their algorithms' sources, and {unknown_source} has none; define it in a file"
        )
    if repeat > 1 and "seed" in vary:
        raise ValueError("vary: seed: it goes with repeat=1; `repeat` sets successive seeds itself")
    if unknown := [name for name in partition if name not in vary]:
        raise ValueError(f"partition: {unknown[0]!r} is no axis; there are {', '.join(vary)}")
    store = _Store(os.fspath(out), _kinds(vary), tuple(partition)) if out is not None else None
    known = store.keys() if store else array("Q")
    rows: list[Row] = []
    done, total = 0, math.prod(len(values) for values in vary.values()) * repeat

    def missing() -> Iterator[Job]:
        nonlocal done
        for job in _jobs(scenario, vary, repeat):
            if known and _is_in(known, job[1]):
                done += 1
            else:
                yield job

    for batch in _executor.batches(functools.partial(run_one, packets_max=packets_max), missing(), executor):
        done += len(batch)
        if store:
            store.write(batch)
        else:
            rows.extend(batch)
        if progress:
            progress(done / total)
    rows.sort(key=lambda row: row["run"])
    return Sweep(rows, store.path if store else None, tuple(partition), total, (scenario, vary, repeat))


def _number(key: str) -> int:
    return int(key[:16], 16)


def _is_in(known: array[int], key: str) -> bool:
    place = bisect.bisect_left(known, _number(key))
    return place < len(known) and known[place] == _number(key)


def _check(base: Scenario, vary: Mapping[str, Sequence[Any]]) -> None:
    """Raises for an axis that is none, and for a value that the scenario refuses: before the first run."""
    for name, values in vary.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"vary: {name}: {values!r} is no list of values; pass at least one, such as ['10ms', '40ms']")
        for value in values:
            base.replace(**{name: value})


def _sourceless(base: Scenario, vary: Mapping[str, Sequence[Any]]) -> str | None:
    """An algorithm in Python whose source is not known."""
    scenarios = [base, *(base.replace(**{name: value}) for name in ("flow", "flows") for value in vary.get(name, ()))]
    kinds = [kind for scenario in scenarios for _, kind in scenario._flows]
    return next((str(getattr(kind, "__qualname__", kind)) for kind in kinds if _source(kind) is None), None)


def _jobs(base: Scenario, vary: Mapping[str, Sequence[Any]], repeat: int) -> Iterator[Job]:
    first = int(base.to_dict().get("seed", 1))
    kinds = _kinds(vary)
    combinations = itertools.product(*vary.values())
    for nth, (values, seed) in enumerate((values, seed) for values in combinations for seed in range(repeat)):
        axes = dict(zip(vary, values, strict=True))
        shown = {f"axis_{name}": _text(value) if kinds[name] is str else kinds[name](value) for name, value in axes.items()}
        try:
            scenario: Scenario | str = base.replace(**{"seed": first + seed, **axes})
        except _bbrlab.ScenarioError as error:
            # Each value is valid by itself, and this combination is not.
            scenario, shown["seed"] = str(error), first + seed
        yield nth, _key(scenario, shown), shown, scenario


def _kinds(vary: Mapping[str, Sequence[Any]]) -> dict[str, type[Any]]:
    """The type of each axis's column: int, float or str."""

    def kind(values: Sequence[Any]) -> type[Any]:
        kinds = {type(value) for value in values}
        return int if kinds == {int} else float if kinds <= {int, float} else str

    return {name: kind(values) for name, values in vary.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_name)


def _name(value: Any) -> str:
    return str(getattr(value, "__name__", value))


def _key(scenario: Scenario | str, axes: dict[str, Any]) -> str:
    """Name of a run by its contents: scenario, seed, version, and the sources of algorithms in Python."""
    if isinstance(scenario, Scenario):
        contents = [scenario.to_json(), *(f"{index} {_source(kind) or kind}" for index, kind in scenario._flows)]
    else:
        contents = [json.dumps(axes, sort_keys=True)]
    return hashlib.sha256("\n".join([_bbrlab.__version__, *contents]).encode()).hexdigest()[:32]


@functools.lru_cache
def _source(kind: Any) -> str | None:
    """Modules, names and sources of an algorithm in Python and of its bases; None if they cannot be read."""
    if isinstance(kind, functools.partial):
        inner = _source(kind.func)
        return None if inner is None else f"{inner}\n{kind.args!r}\n{sorted(kind.keywords.items())!r}"
    own = inspect.getmro(kind) if inspect.isclass(kind) else (kind,)
    own = tuple(one for one in own if one is not object and not one.__module__.startswith("bbrlab."))
    try:
        return "\n".join(f"{one.__module__}.{one.__qualname__}\n{inspect.getsource(one)}" for one in own)
    except (OSError, TypeError, AttributeError):
        return None


def run_one(job: Job, packets_max: float) -> Row:
    """Runs a job. Called on workers."""
    nth, key, axes, scenario = job
    row: Row = {"run": nth, "key": key, "seed": 0, **axes, "error": None}
    if not isinstance(scenario, Scenario):
        return {**row, "error": f"ScenarioError: {scenario}", **dict.fromkeys(_bbrlab.FIGURES)}
    row["seed"] = int(scenario.to_dict().get("seed", 1))
    try:
        # Figures come from the summary, so no series is recorded.
        native = _bbrlab.run(scenario.replace(sample="0s")._json, list(scenario._flows), 0, packets_max, None)
        return {**row, **dict(native.figures())}
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {error}", **dict.fromkeys(_bbrlab.FIGURES)}


class _Store:
    """Parquet files in a directory or at a URL, one for each batch and partition, each written whole or not at all."""

    def __init__(self, path: str, kinds: Mapping[str, type[Any]], partition: tuple[str, ...] = ()) -> None:
        with extra("arrow"):
            import pyarrow

        self.path = path
        self.partition = tuple(f"axis_{name}" for name in partition)
        of = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
        # A partition's values stand in the names of directories, as text.
        axes = {f"axis_{name}": pyarrow.string() if name in partition else of[kind] for name, kind in kinds.items()}
        fixed = {"run": of[int], "key": of[str], "seed": of[int]}
        figures = dict.fromkeys(_bbrlab.FIGURES, of[float])
        #: Columns of a row, with their types.
        self.columns = {**fixed, **axes, "error": of[str], **figures}
        self.files, self.root = opened(path)
        self.files.create_dir(self.root, recursive=True)

    def dataset(self) -> Any:
        """All files as a pyarrow dataset."""
        import pyarrow
        import pyarrow.dataset

        # Files of sweeps over other axes lack columns, which are null there, or have others, which are left out.
        text = pyarrow.schema([(name, pyarrow.string()) for name in self.partition])
        return pyarrow.dataset.dataset(
            self._names(), filesystem=self.files, format="parquet", schema=pyarrow.schema(list(self.columns.items())),
            partition_base_dir=self.root, partitioning=pyarrow.dataset.HivePartitioning(text) if self.partition else None,
        )  # fmt: skip

    def table(self, keys: Any) -> Any:
        """The runs with these keys, in their order: of one that failed and was repeated, what came of it at last."""
        import pyarrow
        import pyarrow.compute

        table = self.dataset().to_table()
        # Numbers are those of this sweep: another one may have made the run.
        places = pyarrow.compute.index_in(table["key"], value_set=keys).cast(pyarrow.int64())
        table = table.set_column(table.column_names.index("run"), "run", places)
        table = table.filter(pyarrow.compute.is_valid(table["run"]))
        # Of the rows of a run, one without an error comes last.
        table = table.take(pyarrow.compute.sort_indices(table, [("run", "ascending"), ("error", "ascending")]))
        runs = table["run"].combine_chunks()
        is_last = pyarrow.compute.not_equal(runs[:-1], runs[1:])
        return table.filter(pyarrow.concat_arrays([is_last, pyarrow.array([True])]) if len(runs) else is_last)

    def _names(self) -> list[str]:
        import pyarrow.fs

        found = self.files.get_file_info(pyarrow.fs.FileSelector(self.root, recursive=True))
        return sorted(one.path for one in found if one.path.endswith(".parquet"))

    def keys(self) -> array[int]:
        """The first halves of the keys of the runs that are there, except those that failed, sorted: 8 bytes a run."""
        found = array("Q")
        if self._names():
            for batch in self.dataset().to_batches(columns=["key", "error"]):
                rows = zip(batch["key"].to_pylist(), batch["error"].to_pylist(), strict=True)
                found.extend(_number(key) for key, error in rows if error is None)
        return array("Q", sorted(found))

    def write(self, rows: list[Row]) -> None:
        """Writes a batch."""
        parts: dict[str, list[Row]] = {}
        for row in rows:
            folder = "/".join(f"{name}={quote(str(row[name]), safe='')}" for name in self.partition)
            parts.setdefault(folder, []).append({name: value for name, value in row.items() if name not in self.partition})
        for folder, own in parts.items():
            self._write_part(folder, own)

    def _write_part(self, folder: str, rows: list[Row]) -> None:
        import pyarrow
        import pyarrow.fs
        import pyarrow.parquet

        columns = {name: pyarrow.array([row[name] for row in rows], self.columns[name]) for name in rows[0]}
        whole = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), whole)
        name = hashlib.sha256("".join(row["key"] for row in rows).encode()).hexdigest()[:32]
        place = "/".join(part for part in (self.root, folder) if part)
        self.files.create_dir(place, recursive=True)
        is_local = isinstance(self.files, pyarrow.fs.LocalFileSystem)
        # An object store shows an object once it is whole; a directory shows a file from its beginning.
        part = f"{place}/.{name}.part" if is_local else f"{place}/{name}.parquet"
        try:
            with self.files.open_output_stream(part) as file:
                file.write(whole.getvalue())
            if is_local:
                os.replace(part, f"{place}/{name}.parquet")
        except BaseException:
            if is_local and os.path.exists(part):
                os.unlink(part)
            raise
