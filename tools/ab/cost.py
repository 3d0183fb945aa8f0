#!/usr/bin/env python3
"""Cost of a test of `bbrlab ab` for its host: cost.py [SECONDS [RATE]]

Measures the program's time and calls per connection by the kernel's own count, and the CPU time for a GB with and without it, in pairs.
Then opens and closes RATE connections a second (10,000) for SECONDS (600), and reports lost records and the command's memory.
As root, in mount and network namespaces of its own (tools/ab.sh cost); $BBRLAB is the command. Load runs at the priority of the caller.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import contextlib
import json
import mmap
import os
import pathlib
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

BBRLAB = os.path.realpath(os.environ.get("BBRLAB", "target/release/bbrlab"))
PORT = 9078
PAIRS = 12
DEFAULT = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")


def until(holds, fault):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end, fault()
        time.sleep(0.05)


class Scene:
    def __init__(self, root, scratch):
        self.root, self.scratch, self.tests = root, scratch, 0
        self.cgroup = root / f"bbrlab-cost-{os.getpid()}"
        self.cgroup.mkdir()
        self.tool = scratch / "load"
        subprocess.run(["cc", "-O2", "-pthread", "-o", self.tool, pathlib.Path(__file__).with_name("load.c")], check=True)

    def enter(self):
        (self.cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def test(self, *flags):
        """Starts a test of the connections that the cgroup's server accepts."""
        self.tests += 1
        out, said = self.scratch / f"out{self.tests}", self.scratch / f"said{self.tests}"
        with said.open("wb") as to:
            test = subprocess.Popen([BBRLAB, "ab", "start", "--cgroup", self.cgroup, "--port", str(PORT), "--direction", "in", "--out", out, *flags],
                                    stdout=to, stderr=subprocess.STDOUT)
        until(lambda: b"records in" in said.read_bytes(), lambda: f"no test: {said.read_text(encoding='utf-8')}")
        return test, out

    def end(self, test, out):
        test.send_signal(signal.SIGINT)
        assert test.wait(120) == 0
        return json.loads(subprocess.run([BBRLAB, "ab", "report", out, "--json"], capture_output=True, check=True).stdout)

    def load(self, size, seconds, rate, watch=lambda: None, threads=4, client=None):
        """Loads a server in the cgroup. Returns the connections made, and the cgroup's CPU time in seconds. `client` enters a cgroup."""
        progress = self.scratch / "progress"
        progress.unlink(missing_ok=True)
        server = subprocess.Popen([self.tool, "serve", str(PORT), str(threads), str(size)], preexec_fn=self.enter)
        try:
            time.sleep(0.5)
            before = self.cpu()
            clients = subprocess.Popen([self.tool, "fetch", str(PORT), str(threads), str(size), str(seconds), str(rate), progress], preexec_fn=client)
            while clients.poll() is None:
                time.sleep(0.2)
                watch()
            assert clients.returncode == 0, "a connection was lost"
            used = self.cpu() - before
        finally:
            server.kill()
            server.wait()
        with progress.open("rb") as file, mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ) as done:
            return struct.unpack("Q", done[:8])[0], used

    def cpu(self):
        lines = (self.cgroup / "cpu.stat").read_text(encoding="ascii").splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def program(cgroup):
    """Time and number of calls of the program on the cgroup's hook."""
    shown = subprocess.run(["bpftool", "-j", "cgroup", "show", cgroup], capture_output=True, check=True).stdout
    (own,) = (one["id"] for one in json.loads(shown) if one["attach_type"].endswith("sock_ops"))
    found = json.loads(subprocess.run(["bpftool", "-j", "prog", "show", "id", str(own)], capture_output=True, check=True).stdout)
    return found.get("run_time_ns", 0), found.get("run_cnt", 0)


@contextlib.contextmanager
def statistics_on():
    before = STATS.read_text(encoding="ascii")
    STATS.write_text("1", encoding="ascii")
    try:
        yield
    finally:
        STATS.write_text(before, encoding="ascii")


def by_the_kernel(scene):
    for arms in ["cubic,reno", f"{DEFAULT},{DEFAULT}"]:
        test, out = scene.test("--arms", arms)
        scene.load(1_000, 1, 0)
        rows = []
        for _ in range(5):
            ns, calls = program(scene.cgroup)
            count, _ = scene.load(1_000, 2, 0)
            after = program(scene.cgroup)
            rows.append(((after[0] - ns) / count, (after[1] - calls) / count))
        scene.end(test, out)
        ns, calls = statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)
        print(f"arms {arms}, the server's end: {calls:.1f} calls and {ns:.0f} ns a connection ({min(row[0] for row in rows):.0f} to {max(row[0] for row in rows):.0f})")


def by_part(scene):
    """The same program with clocks of its own, by call and by part."""
    parts = "clock syn idle opened closed choice table setsockopt".split()
    says = {"syn": "SYN", "idle": "a call that does nothing", "opened": "established", "closed": "closed", "choice": "the choice of an arm",
            "table": "its place in the table", "setsockopt": "setsockopt"}
    clang = next((name for name in ["clang", *(f"clang-{n}" for n in range(30, 13, -1))] if shutil.which(name)), None)
    if clang is None:
        print("by part: not measured, there is no clang")
        return
    pins = pathlib.Path("/run/bpf")
    pins.mkdir()
    subprocess.run(["mount", "-t", "bpf", "none", pins], check=True)
    name = ",".join(str(word) for word in struct.unpack("QQ", b"reno".ljust(16, b"\0")))
    for title, flags in [("calls", []), ("parts of a call", ["-DINSIDE"]), ("setsockopt alone", ["-DALONE"]), ("set-up", ["-DOPENING"])]:
        read = sums if title != "set-up" else lambda _: []
        built = scene.scratch / "parts.o"
        subprocess.run([clang, "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fno-builtin", "-fno-jump-tables", f"-DNAME={name}", *flags,
                        "-c", pathlib.Path(__file__).with_name("parts.bpf.c"), "-o", built], check=True)
        loaded = pins / "parts"
        subprocess.run(["bpftool", "prog", "loadall", built, loaded], check=True, capture_output=True)
        hook = ["sock_ops", "pinned", loaded / "assign"]
        subprocess.run(["bpftool", "cgroup", "attach", scene.cgroup, *hook], check=True)
        try:
            # With -DOPENING entries are never removed: the run must end before the table is full.
            scene.load(1_000, 1, 0)
            before, began = read(loaded), program(scene.cgroup)
            count, _ = scene.load(1_000, 4, 0)
            spent = {part: (after[0] - ns, after[1] - calls) for part, (ns, calls), after in zip(parts, before, read(loaded))}
            ended = program(scene.cgroup)
        finally:
            subprocess.run(["bpftool", "cgroup", "detach", scene.cgroup, *hook], check=True)
            for pin in loaded.iterdir():
                pin.unlink()
            loaded.rmdir()
        if title == "set-up":
            print(f"set-up alone, by the kernel's count: {(ended[1] - began[1]) / count:.1f} calls and {(ended[0] - began[0]) / count:.0f} ns a connection")
            continue
        # Reading a clock takes time too.
        clock = spent["clock"][0] / spent["clock"][1]
        shown = [f"{says[part]} {ns / calls - clock:.0f} ns" for part, (ns, calls) in spent.items() if part != "clock" and calls]
        print(f"{title}, by clocks: {', '.join(shown)}")


def sums(loaded):
    """Time and number of calls of each part, summed over all processors."""
    (sums,) = (one for one in json.loads(subprocess.run(["bpftool", "-j", "map", "show"], capture_output=True, check=True).stdout)
               if one.get("name") == "sums" and one["id"] in map_ids(loaded / "assign"))
    shown = json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "id", str(sums["id"])], capture_output=True, check=True).stdout)
    word = lambda value, at: int.from_bytes(bytes(int(byte, 16) for byte in value["value"][at:at + 8]), sys.byteorder)
    return [tuple(sum(word(value, at) for value in one["values"]) for at in (0, 8)) for one in shown]


def map_ids(program):
    return json.loads(subprocess.run(["bpftool", "-j", "prog", "show", "pinned", program], capture_output=True, check=True).stdout)["map_ids"]


def by_the_gigabyte(scene):
    ratios = []
    for nth in range(PAIRS):
        seconds = {}
        for with_it in [nth % 2 == 0, nth % 2 == 1]:
            test = scene.test("--arms", f"{DEFAULT},{DEFAULT}") if with_it else None
            count, used = scene.load(4_000_000, 2, 0, threads=2, client=scene.enter)
            seconds[with_it] = used / (count * 4e-3)
            if test:
                scene.end(*test)
        ratios.append(seconds[True] / seconds[False])
    ratios.sort()
    # The third smallest and third largest of twelve bound the median in 96 of 100 cases (order statistics).
    print(f"CPU time for a GB, with the test over without, median of {PAIRS} pairs: {statistics.median(ratios):.3f} ({ratios[2]:.3f} to {ratios[-3]:.3f})")


def sustained(scene, seconds, rate):
    test, out = scene.test("--arms", "cubic,reno", "--disk", "4GB", "--every", "10s")
    status = pathlib.Path(f"/proc/{test.pid}/status")
    held = []

    def watch():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmRSS"))
        held.append(int(line.split()[1]) / 1e3)

    count, _ = scene.load(1_000, seconds, rate, watch, threads=16)
    test.send_signal(signal.SIGINT)
    assert test.wait(600) == 0
    found = json.loads((out / "experiment.json").read_text(encoding="utf-8"))["counts"]
    established = sum(arm["established"] for arm in found["arms"])
    fifth = len(held) // 5
    print(f"{seconds} s of {count / seconds:.0f} connections a second: {count} connections, {established} seen, {found['written']} records, "
          f"lost {found['ring_lost']} in the ring, {found['disk_lost']} on the disk, {found['no_memory']} for want of memory; the command held "
          f"{statistics.median(held[fifth:2 * fifth]):.0f} MB in the second fifth, {statistics.median(held[-fifth:]):.0f} MB in the last, {max(held):.0f} MB at most")
    return found["ring_lost"] + found["disk_lost"] + found["no_memory"] == 0 and found["written"] >= count


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("10000 65000", encoding="ascii")
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    root = pathlib.Path(next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2"))
    scratch = pathlib.Path(tempfile.mkdtemp())
    scene = Scene(root, scratch)
    try:
        with statistics_on():
            by_the_kernel(scene)
            by_part(scene)
        by_the_gigabyte(scene)
        whole = sustained(scene, seconds, rate)
    finally:
        time.sleep(0.5)
        scene.cgroup.rmdir()
        shutil.rmtree(scratch)
    sys.exit(not whole)


if __name__ == "__main__":
    main()
