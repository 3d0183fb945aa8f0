"""Sweeps: the same rows whatever runs them, resumed, with failures as rows."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest

import bbrlab
import bbrlab._executor
import bbrlab._sweep
from conftest import BBRLAB, ROOT

BASE = {"duration": "2s", "rate": "10mbit", "buffer": "1bdp", "flows": ["bbr1", "cubic"]}
VARY = {"rtt": ["10ms", "40ms", "100ms"], "loss": ["0%", "1%"]}


@pytest.fixture(scope="module")
def wanted():
    return bbrlab.sweep(BASE, vary=VARY, repeat=3).rows


def test_rows_name_axes_seeds_and_figures(wanted):
    assert len(wanted) == 18 and [row["run"] for row in wanted] == list(range(18))
    assert [(row["axis_rtt"], row["axis_loss"], row["seed"]) for row in wanted[:4]] == [
        ("10ms", "0%", 1), ("10ms", "0%", 2), ("10ms", "0%", 3), ("10ms", "1%", 1),
    ]  # fmt: skip
    one = bbrlab.run(**BASE, rtt="40ms", loss="1%", seed=2)
    row = next(row for row in wanted if (row["axis_rtt"], row["axis_loss"], row["seed"]) == ("40ms", "1%", 2))
    assert row["first_share"] == one.groups["bbr1"].share and row["error"] is None
    assert row["queue_p95_ms"] == one.bottleneck.queue_ms.p95


def test_columns_and_figures_are_those_of_the_command(tmp_path):
    words = [
        "--rate",
        "10mbit",
        "--duration",
        "1s",
        "--flow",
        "bbr1",
        "--flow",
        "cubic",
        "--vary",
        "rtt=10ms,40ms",
        "--repeat",
        "2",
    ]
    subprocess.run([BBRLAB, "sweep", *words, "--out", tmp_path / "out"], check=True, capture_output=True)
    theirs = bbrlab.read(tmp_path / "out" / "runs.parquet").drop_columns("run_id").to_pylist()
    rows = bbrlab.sweep(rate="10mbit", duration="1s", flows=["bbr1", "cubic"], vary={"rtt": ["10ms", "40ms"]}, repeat=2).rows
    assert sorted(theirs, key=lambda row: (row["axis_rtt"], row["seed"])) == [
        {name: value for name, value in row.items() if name not in ("run", "key", "error")} for row in rows
    ]


def test_processes_give_the_same_rows(wanted, monkeypatch):
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.05)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert bbrlab.sweep(BASE, vary=VARY, repeat=3, executor=pool).rows == wanted


def test_a_run_that_fails_is_a_row():
    rows = bbrlab.sweep(BASE, vary={"rate": ["10mbit", "400gbit"], "duration": ["2s"]}, packets_max=1e6).rows
    assert rows[0]["error"] is None and "packets_max" in rows[1]["error"] and rows[1]["goodput_bps"] is None


def test_a_combination_that_is_not_valid_is_a_row(tmp_path):
    vary = {"warmup": ["0s", "5s"], "duration": ["2s", "9s"]}
    for out in (None, tmp_path):
        sweep = bbrlab.sweep(rate="10mbit", vary=vary, out=out)
        rows = sweep.to_arrow().to_pylist()
        assert [row["error"] is None for row in rows] == [True, True, False, True], rows
        assert rows[2]["error"].startswith("ScenarioError: warmup") and rows[2]["seed"] == 1


def test_a_run_that_failed_is_repeated_and_counts_once(tmp_path):
    arguments = {"rate": "50mbit", "vary": {"duration": ["1s", "9s"]}, "out": tmp_path}
    first = bbrlab.sweep(**arguments, packets_max=1e4).to_arrow()
    assert [error is None for error in first["error"].to_pylist()] == [True, False]
    done = []
    second = bbrlab.sweep(**arguments, progress=done.append)
    assert second.to_arrow()["error"].to_pylist() == [None, None] and len(second) == 2 and done[-1] == 1.0


def test_whole_and_broken_numbers_make_one_axis(tmp_path, monkeypatch):
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 1e-6)
    sweep = bbrlab.sweep(rate="10mbit", duration="1s", vary={"loss": [0, 0.01, 0.02]}, out=tmp_path)
    assert sweep.to_arrow()["axis_loss"].to_pylist() == [0.0, 0.01, 0.02]


@pytest.mark.parametrize("partition", [(), ("rtt",)])
def test_sweeps_over_other_axes_share_a_place(tmp_path, partition):
    base = {"rate": "10mbit", "duration": "1s"}
    bbrlab.sweep(base, vary={"loss": ["0%", "1%"]}, out=tmp_path)
    shared = bbrlab.sweep(base, vary={"rtt": ["10ms", "40ms"]}, out=tmp_path, partition=partition).to_arrow()
    assert shared["axis_rtt"].to_pylist() == ["10ms", "40ms"] and "axis_loss" not in shared.column_names


def test_read_gives_the_axes_that_are_directories(tmp_path):
    base = {"rate": "10mbit", "duration": "1s"}
    bbrlab.sweep(base, vary={"rtt": ["10ms", "40ms"], "flow": ["bbr3"]}, out=tmp_path, partition=("rtt", "flow"))
    table = bbrlab.read(tmp_path)
    axes = zip(table["axis_rtt"].to_pylist(), table["axis_flow"].to_pylist(), strict=True)
    assert sorted(axes) == [("10ms", "bbr3"), ("40ms", "bbr3")]


def test_an_error_leaves_no_batch_waiting(monkeypatch):
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.0)
    begun = []

    def task(number):
        begun.append(number)
        if number == 1:
            raise RuntimeError
        time.sleep(0.05)
        return number

    with ThreadPoolExecutor(1) as executor, pytest.raises(RuntimeError):
        for _ in bbrlab._executor.batches(task, iter(range(100)), executor):
            pass
    assert len(begun) < 5


def counted(monkeypatch, ran, stop=None):
    """Notes the runs that are made; the one after `stop` of them fails for want of space."""
    whole = bbrlab._sweep.run_one

    def one(job, packets_max):
        if stop is not None and len(ran) >= stop:
            raise OSError("no space left")
        ran.append(job[0])
        return whole(job, packets_max)

    monkeypatch.setattr(bbrlab._sweep, "run_one", one)


@pytest.mark.parametrize("partition", [(), ("rtt",), ("rtt", "loss")])
@pytest.mark.parametrize("where", ["folder", "memory"])
def test_a_sweep_goes_on_where_it_stopped(tmp_path, wanted, monkeypatch, partition, where):
    out = str(tmp_path / "a") if where == "folder" else f"memory://sweep/{len(partition)}"
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.005)
    with monkeypatch.context() as patched:
        ran = []
        counted(patched, ran, stop=9)
        with pytest.raises(OSError, match="no space"):
            bbrlab.sweep(BASE, vary=VARY, repeat=3, out=out, partition=partition)
    first, ran = set(ran), []
    kept = len(bbrlab._sweep._Store(out, {}, partition).keys())
    with monkeypatch.context() as patched:
        counted(patched, ran)
        sweep = bbrlab.sweep(BASE, vary=VARY, repeat=3, out=out, partition=partition)
    assert kept >= 1 and len(ran) == 18 - kept and first | set(ran) == set(range(18))
    again = bbrlab.sweep(BASE, vary=VARY, repeat=3, out=out, partition=partition)
    columns = list(wanted[0])
    assert sweep.to_arrow().select(columns).to_pylist() == wanted and again.to_arrow().equals(sweep.to_arrow()) and len(sweep) == 18
    if where == "folder":
        files = [*(tmp_path / "a").rglob("*")]
        assert not [path for path in files if path.suffix == ".part"]
        assert sum(path.is_dir() for path in files) == {0: 0, 1: 3, 2: 9}[len(partition)]


def test_a_full_disk_loses_nothing_that_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.001)
    replace = os.replace
    written = []

    def full(part, path):
        if len(written) >= 3:
            raise OSError(28, "No space left on device", part)
        written.append(path)
        replace(part, path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            bbrlab.sweep(BASE, vary=VARY, out=tmp_path)
    assert sorted(map(str, tmp_path.rglob("*"))) == sorted(written) and len(written) == 3
    assert len(bbrlab.sweep(BASE, vary=VARY, out=tmp_path)) == 6


def test_jobs_are_made_as_they_are_needed():
    jobs = bbrlab._sweep._jobs(bbrlab.Scenario(BASE), {"loss": [n / 1e6 for n in range(10**6)], "rtt": ["10ms"] * 10**6}, 5)
    assert next(jobs)[2] == {"axis_loss": 0.0, "axis_rtt": "10ms"}


@pytest.mark.parametrize("tasks", [[0.0] + [0.02] * 60, [0.001] * 200 + [0.02] * 40], ids=["first is quick", "later are slow"])
def test_batches_follow_what_tasks_cost(monkeypatch, tasks):
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.1)
    with ThreadPoolExecutor(4) as pool:
        begun = time.monotonic()
        sizes = [len(batch) for batch in bbrlab._executor.batches(time.sleep, iter(tasks), pool)]
        seconds = time.monotonic() - begun
    # Four workers share the work: far less than one would take, whatever the first tasks cost.
    assert sum(sizes) == len(tasks) and max(sizes) < len(tasks) / 4 and seconds < 0.7 * sum(tasks), (sizes, seconds)


def test_an_engine_of_many_workers_is_kept_busy():
    busy, most, lock = 0, 0, threading.Lock()

    def task(_):
        nonlocal busy, most
        with lock:
            busy, most = busy + 1, max(most, busy + 1)
        time.sleep(0.005)
        with lock:
            busy -= 1

    with ThreadPoolExecutor(100) as pool:
        assert sum(len(batch) for batch in bbrlab._executor.batches(task, iter(range(2000)), pool)) == 2000
    assert most > 80


CLASS = """
import bbrlab
class Mine(bbrlab.Algorithm):
    def on_ack(self, ack):
        self.cwnd_packets = WINDOW
"""


def test_an_algorithm_that_has_changed_is_run_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "four.py").write_text(CLASS.replace("WINDOW", "4"))
    (tmp_path / "forty.py").write_text(CLASS.replace("WINDOW", "40"))
    import forty
    import four

    base = {"rate": "10mbit", "rtt": "40ms", "duration": "1s"}
    apart = [bbrlab.sweep(base, vary={"flows": [[one.Mine]]}).rows[0]["goodput_bps"] for one in (four, forty)]
    assert apart[1] > 5 * apart[0]
    one = bbrlab.sweep(base, vary={"flows": [[four.Mine], [forty.Mine]]}, out=tmp_path / "out").to_arrow()
    assert one["goodput_bps"].to_pylist() == apart
    space = {}
    exec(CLASS.replace("WINDOW", "4"), space)
    with pytest.raises(ValueError, match="Mine has none; define it in a file"):
        bbrlab.sweep(base, flows=[space["Mine"]], vary={"rtt": ["10ms"]}, out=tmp_path / "out")


def test_a_sweep_that_has_grown_is_that_of_a_fresh_place(tmp_path):
    base = {"rate": "10mbit", "duration": "1s"}
    bbrlab.sweep(base, vary={"rtt": ["10ms", "40ms"]}, out=tmp_path / "a")
    grown = bbrlab.sweep(base, vary={"rtt": ["20ms", "10ms", "40ms"]}, out=tmp_path / "a")
    fresh = bbrlab.sweep(base, vary={"rtt": ["20ms", "10ms", "40ms"]}, out=tmp_path / "b")
    assert grown.to_arrow().equals(fresh.to_arrow()) and len(grown) == 3


def test_dask_loses_nothing_when_a_worker_is_killed(wanted, monkeypatch):
    distributed = pytest.importorskip("dask.distributed")
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.02)
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


def test_the_tasks_of_a_job_array_give_the_table_of_one_run(tmp_path):
    (tmp_path / "sweep.toml").write_text('rate = "10mbit"\nduration = "1s"\n[[vary]]\nname = "rtt"\nvalues = ["10ms..80ms:8"]\n')
    subprocess.run([BBRLAB, "sweep", tmp_path / "sweep.toml", "--out", tmp_path / "one"], check=True, capture_output=True)
    # The third task is submitted alone, again.
    for task, count in (("2", "3"), ("1", "3"), ("3", "1")):
        shard = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": count, "SHARDS": "3", "BBRLAB": BBRLAB}
        words = [ROOT / "contrib/slurm-sweep.sh", tmp_path / "sweep.toml", tmp_path / "many"]
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, **shard})
    assert (tmp_path / "one/runs.parquet").read_bytes() == (tmp_path / "many/runs.parquet").read_bytes()


def start(*words):
    return subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_workers_over_tcp_may_die_and_a_new_scheduler_goes_on(wanted, monkeypatch, tmp_path):
    distributed = pytest.importorskip("dask.distributed")
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.02)
    vary = {**VARY, "buffer": ["1bdp", "2bdp"]}

    def cluster(port):
        address = f"tcp://127.0.0.1:{port}"
        scheduler = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        worker = ("distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
        return [scheduler, start(*worker), start(*worker)], address

    def free():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    processes, address = cluster(free())
    try:
        with distributed.Client(address, timeout=30) as client:
            client.wait_for_workers(2, timeout=30)
            killers = []

            def kill(share):
                if not killers:
                    killers.append(processes[1].pid)
                    processes[1].kill()

            rows = bbrlab.sweep(BASE, vary=vary, repeat=6, executor=client, progress=kill).rows
            assert killers and rows == bbrlab.sweep(BASE, vary=vary, repeat=6).rows

            # The scheduler dies: the sweep ends with an error, and another one goes on with what there is.
            def end(share):
                if share > 0.3:
                    processes[0].kill()

            with pytest.raises((OSError, distributed.CancelledError)):
                bbrlab.sweep(BASE, vary=vary, repeat=12, executor=client, progress=end, out=tmp_path)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    kept = len(bbrlab._sweep._Store(str(tmp_path), {}).keys())
    assert 0 < kept < 144
    whole = bbrlab.sweep(BASE, vary=vary, repeat=12, out=tmp_path)
    assert whole.to_arrow()["run"].to_pylist() == list(range(144))


def test_ray_gives_the_same_rows(wanted, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(bbrlab._executor, "BATCH_S", 0.02)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert bbrlab.sweep(BASE, vary=VARY, repeat=3, executor="ray").rows == wanted
    finally:
        ray.shutdown()


def test_mpi_gives_the_same_rows(wanted, tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("no mpiexec")
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\nfrom mpi4py.futures import MPIPoolExecutor\nimport bbrlab\n"
        "if __name__ == '__main__':\n    with MPIPoolExecutor() as pool:\n"
        f"        rows = bbrlab.sweep({BASE!r}, vary={VARY!r}, repeat=3, executor=pool).rows\n"
        "    json.dump(rows, open(sys.argv[1], 'w'))\n",
        encoding="utf-8",
    )
    words = [mpiexec, "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures", program]
    done = subprocess.run([*words, tmp_path / "rows.json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "rows.json").read_text()) == wanted


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"vary": {"rtt": "10ms"}}, "no list of values"),
        ({"vary": {"rtt": []}}, "no list of values"),
        ({"vary": VARY, "repeat": 0}, "at least 1"),
        ({"vary": {"rtt": ["10ms", "10"]}}, "as in 40ms"),
        ({"vary": {"seed": [1, 2]}, "repeat": 2}, "seed: it goes with repeat=1"),
        ({"vary": VARY, "partition": ["rate"]}, "no axis; there are rtt, loss"),
    ],
)
def test_bad_input_is_refused_before_the_first_run(arguments, text):
    with pytest.raises(ValueError, match=text):
        bbrlab.sweep(BASE, **arguments)


def test_an_unknown_executor_is_a_type_error():
    with pytest.raises(TypeError, match="executor"):
        bbrlab.sweep(BASE, vary=VARY, executor=7)
