"""Sweeps: the same rows whatever runs them, resumed, with failures as rows."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import bbrlab
import bbrlab._sweep

BASE = {"duration": "2s", "rate": "10mbit", "buffer": "1bdp", "flows": ["bbr1", "cubic"]}
VARY = {"rtt": ["10ms", "40ms", "100ms"], "loss": ["0%", "1%"]}


@pytest.fixture(scope="module")
def wanted():
    return bbrlab.sweep(BASE, vary=VARY, repeat=3).rows


def test_rows_name_axes_seeds_and_figures(wanted):
    assert len(wanted) == 18 and [row["run"] for row in wanted] == list(range(18))
    assert [(row["rtt"], row["loss"], row["seed"]) for row in wanted[:4]] == [
        ("10ms", "0%", 1), ("10ms", "0%", 2), ("10ms", "0%", 3), ("10ms", "1%", 1),
    ]  # fmt: skip
    one = bbrlab.run(**BASE, rtt="40ms", loss="1%", seed=2)
    row = next(row for row in wanted if (row["rtt"], row["loss"], row["seed"]) == ("40ms", "1%", 2))
    assert row["share.bbr1"] == one.groups["bbr1"].share and row["error"] is None
    assert row["queue_ms_p95"] == one.bottleneck.queue_ms.p95


def test_processes_give_the_same_rows(wanted, monkeypatch):
    monkeypatch.setattr(bbrlab._sweep, "BATCH_S", 0.05)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert bbrlab.sweep(BASE, vary=VARY, repeat=3, executor=pool).rows == wanted


def test_a_run_that_fails_is_a_row():
    rows = bbrlab.sweep(BASE, vary={"rate": ["10mbit", "400gbit"], "duration": ["2s"]}, packets_max=1e6).rows
    assert rows[0]["error"] is None and "packets_max" in rows[1]["error"] and rows[1]["goodput_bps"] is None


def test_a_sweep_goes_on_where_it_stopped(tmp_path, wanted, monkeypatch):
    monkeypatch.setattr(bbrlab._sweep, "BATCH_S", 0.02)
    ran = []
    whole = bbrlab._sweep.run_batch

    def counted(jobs, packets_max):
        if len(ran) >= 6:
            raise OSError("no space left")
        ran.extend(job[0] for job in jobs)
        return whole(jobs, packets_max)

    def note(job):
        ran.append(job[0])
        return job

    monkeypatch.setattr(bbrlab._sweep, "run_batch", counted)
    with pytest.raises(OSError, match="no space"):
        bbrlab.sweep(BASE, vary=VARY, repeat=3, out=tmp_path / "a")
    first = set(ran)
    assert 6 <= len(first) < 18
    ran.clear()
    monkeypatch.setattr(bbrlab._sweep, "run_batch", lambda jobs, most: [*map(note, jobs)] and whole(jobs, most))
    table = bbrlab.sweep(BASE, vary=VARY, repeat=3, out=tmp_path / "a").to_arrow()
    assert len(ran) < 18 and first | set(ran) == set(range(18))
    again = bbrlab.sweep(BASE, vary=VARY, repeat=3, out=tmp_path / "a").to_arrow()
    columns = list(wanted[0])
    assert table.select(columns).to_pylist() == wanted and again.equals(table)
    assert not [name for name in os.listdir(tmp_path / "a") if name.endswith(".part")]


def test_dask_loses_nothing_when_a_worker_is_killed(wanted, monkeypatch):
    distributed = pytest.importorskip("dask.distributed")
    monkeypatch.setattr(bbrlab._sweep, "BATCH_S", 0.02)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def kill():
            time.sleep(0.2)
            os.kill(pids[0], signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        rows = bbrlab.sweep(BASE, vary={**VARY, "buffer": ["1bdp", "2bdp"]}, repeat=12, executor=client).rows
        thread.join()
    assert [row["run"] for row in rows] == list(range(144))
    alone = bbrlab.sweep(BASE, vary={**VARY, "buffer": ["1bdp", "2bdp"]}, repeat=12).rows
    assert rows == alone


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"vary": {"rtt": "10ms"}}, "no list of values"),
        ({"vary": {"rtt": []}}, "no list of values"),
        ({"vary": VARY, "repeat": 0}, "at least 1"),
        ({"vary": {"rtt": ["10"]}}, "as in 40ms"),
    ],
)
def test_bad_input_is_refused_before_the_first_run(arguments, text):
    with pytest.raises(ValueError, match=text):
        bbrlab.sweep(BASE, **arguments)


def test_an_unknown_executor_is_a_type_error():
    with pytest.raises(TypeError, match="executor"):
        bbrlab.sweep(BASE, vary=VARY, executor=7)
