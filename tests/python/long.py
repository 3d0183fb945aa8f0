"""A sweep of many runs, with the memory of its client and its workers: long.py [RUNS [ENGINE]]

ENGINE is "processes", "dask" or "ray"; without one, all that are installed. Not in CI: 100,000 runs take minutes on each.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import bbrlab


def resident(pid):
    """Bytes of memory of a process that nothing else shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    fields = (line.split() for line in text.splitlines()[1:])
    return 1024 * sum(int(field[1]) for field in fields if field[0] in ("Private_Clean:", "Private_Dirty:"))


def children(pid):
    """All processes below one."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="ascii").split():
                yield int(child)
                yield from children(child)


@contextlib.contextmanager
def engine(name):
    if name == "processes":
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            yield pool
    elif name == "dask":
        from dask.distributed import Client, LocalCluster

        with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            yield client
    else:
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            yield "ray"
        finally:
            ray.shutdown()


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    base = bbrlab.Scenario(rate="5mbit", rtt="20ms", duration="1s", flows=["bbr3"])
    begun = time.perf_counter()
    alone = bbrlab.sweep(base, vary={"loss": [n * 1e-5 for n in range(200)]}, repeat=5)
    cost_s = (time.perf_counter() - begun) / len(alone)
    print(f"one run on threads here, two at a time: {cost_s * 1e3:.2f} ms")
    for name in sys.argv[2:] or ("processes", "dask", "ray"):
        out, most, stop = tempfile.mkdtemp(), {}, threading.Event()

        def watch(most=most, stop=stop):
            while not stop.wait(0.5):
                for pid in (os.getpid(), *children(os.getpid())):
                    with contextlib.suppress(OSError):
                        most[pid] = max(most.get(pid, 0), resident(pid))

        threading.Thread(target=watch, daemon=True).start()
        try:
            with engine(name) as executor:
                begun = time.perf_counter()
                vary = {"loss": [n * 1e-6 for n in range(runs // 50)], "buffer": ["1bdp", "2bdp"]}
                found = bbrlab.sweep(base, vary=vary, repeat=25, executor=executor, out=out, partition=["buffer"])
                seconds = time.perf_counter() - begun
            stop.set()
            files = [path for path in Path(out).rglob("*.parquet")]
            size = sum(path.stat().st_size for path in files)
            own = most.pop(os.getpid())
            print(
                f"{name}: {len(found)} runs in {seconds:.0f} s, {seconds / runs * 1e3:.2f} ms each; client {own / 1e6:.0f} MB, "
                f"the largest of the others {max(most.values(), default=0) / 1e6:.0f} MB; {len(files)} files, {size / 1e6:.1f} MB",
                flush=True,
            )
        finally:
            stop.set()
            shutil.rmtree(out)


if __name__ == "__main__":
    main()
