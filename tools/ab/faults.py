#!/usr/bin/env python3
"""Leftovers of a test of `bbrlab ab` after a fault under load: faults.py [TRIALS [SEED [FAULT]]]

Each trial starts a test in a cgroup of its own, loads it, and at a random time injects one of FAULTS. After that no client may have
lost a connection, new connections use the host's default within a second, no program and no congestion control of the test is in the
kernel, `ab status` finds nothing that it cannot clear, and the records hold every connection that ended a second before the fault.
As root, in mount and network namespaces of its own (tools/ab.sh faults); $BBRLAB is the command.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import collections
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

BBRLAB = os.path.realpath(os.environ.get("BBRLAB", "target/release/bbrlab"))
PORT = 9077
# Timeouts of start and end, seconds: on a busy machine a poll of a tenth of a second takes longer.
BEGIN_S, END_S = 20, 20


class Trial:
    def __init__(self, number, rng, root, scratch, tool):
        self.rng, self.root, self.tool = rng, root, tool
        self.cgroup = root / f"bbrlab-faults-{os.getpid()}-{number}"
        self.dir = scratch / str(number)
        self.out = self.dir / "out"
        self.test = self.server = self.client = None
        self.mounted = False
        self.other = None

    def __enter__(self):
        self.cgroup.mkdir()
        self.out.mkdir(parents=True)
        return self

    def __exit__(self, *_):
        for process in [self.client, self.test, self.server]:
            if process and process.poll() is None:
                process.kill()
            if process:
                process.wait()
        if self.mounted:
            subprocess.run(["umount", self.out], check=True)
        for _ in range(50):
            try:
                if self.cgroup.exists():
                    self.cgroup.rmdir()
                break
            except OSError:
                time.sleep(0.1)
        shutil.rmtree(self.dir)

    def enter(self):
        (self.cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def begin(self, disk):
        if disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "none", self.out], check=True)
            self.mounted = True
        self.test = subprocess.Popen(
            [BBRLAB, "ab", "start", "--arms", "reno,bbr3-linux", "--cgroup", self.cgroup, "--port", str(PORT), "--direction", "in",
             "--every", "1s", "--out", self.out], stdout=(self.dir / "said").open("wb"), stderr=subprocess.STDOUT)
        until(lambda: b"records in" in (self.dir / "said").read_bytes(), BEGIN_S, lambda: f"no test: {self.said()}")
        self.server = subprocess.Popen([self.tool, "serve", str(PORT), "4", "2000"], preexec_fn=self.enter)
        until(listens, BEGIN_S, lambda: "no server")
        self.load()
        time.sleep(0.5 + self.rng.random())
        self.before = self.done()
        time.sleep(1)

    def load(self):
        progress = self.dir / "progress"
        progress.unlink(missing_ok=True)
        self.client = subprocess.Popen([self.tool, "fetch", str(PORT), "4", "2000", "600", "400", progress], stderr=(self.dir / "client").open("wb"))
        until(lambda: progress.exists() and progress.stat().st_size == 8, BEGIN_S, lambda: "no client")
        self.progress = mmap.mmap(os.open(progress, os.O_RDONLY), 8, prot=mmap.PROT_READ)

    def done(self):
        return struct.unpack("Q", self.progress[:8])[0]

    def said(self):
        return (self.dir / "said").read_text(encoding="utf-8")

    # The faults. Each returns whether the clients continue, and whether the test does.
    def kill_the_command(self):
        self.test.kill()
        return True, False

    def kill_the_server(self):
        self.server.kill()
        return False, True

    def kill_the_clients(self):
        self.client.kill()
        return False, True

    def fill_the_disk(self):
        filler = os.open(self.out / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            os.close(filler)
        return True, True

    def remove_the_cgroup(self):
        for process in (self.cgroup / "cgroup.procs").read_text(encoding="ascii").split():
            (self.root / "cgroup.procs").write_text(process, encoding="ascii")
        self.cgroup.rmdir()
        return True, False

    def replace_the_program(self):
        """Another user detaches it from the hook and attaches a different program."""
        links = json.loads(subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True, check=True).stdout)
        inode = self.cgroup.stat().st_ino
        own = [link["id"] for link in links if link.get("cgroup_id") == inode and link["type"] == "cgroup"]
        assert own, f"no link on the cgroup {inode}: {links}"
        subprocess.run(["bpftool", "link", "detach", "id", str(own[0])], check=True)
        return True, False

    def forget_the_list(self):
        """A reboot clears /run, and there is no pin."""
        shutil.rmtree("/run/bbrlab")
        return True, True

    def check(self, fault, goes_on, runs):
        begun = time.monotonic()
        if not runs:
            self.test.wait(END_S)
            # New connections use the host's default.
            until(lambda: used(self.cgroup if self.cgroup.exists() else self.root) == DEFAULT, 1, lambda: "new connections have an arm")
        if goes_on:
            seen = self.done()
            until(lambda: self.done() > seen + 50, END_S, lambda: "the clients stand still")
            assert self.client.poll() is None, f"a connection was lost: {(self.dir / 'client').read_text(encoding='utf-8')}"
        self.client.kill()
        self.client.wait()
        if runs:
            if fault == "forget_the_list":
                self.test.send_signal(signal.SIGINT)
            else:
                subprocess.run([BBRLAB, "ab", "stop"], check=True, capture_output=True)
            self.test.wait(END_S)
        status = subprocess.run([BBRLAB, "ab", "status"], capture_output=True, check=True, text=True).stdout
        again = subprocess.run([BBRLAB, "ab", "status"], capture_output=True, check=True, text=True).stdout
        assert "no test is running, and none was left behind" in again, f"{status}{again}"
        available = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
        until(lambda: "bbr3_linux" not in available.read_text(encoding="ascii"), END_S, lambda: "bbr3_linux is still there")
        if self.cgroup.exists():
            shown = subprocess.run(["bpftool", "-j", "cgroup", "show", self.cgroup], capture_output=True, check=True).stdout
            assert not shown.strip() or not json.loads(shown), f"a program is left on the cgroup: {shown}"
        found = subprocess.run([BBRLAB, "ab", "report", self.out, "--json"], capture_output=True, check=False, text=True)
        assert found.returncode == 0, found.stderr
        found = json.loads(found.stdout)
        if fault != "fill_the_disk":
            assert found["connections"] >= self.before, f"{found['connections']} connections of {self.before} before the fault"
        return time.monotonic() - begun


def until(holds, seconds, fault):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(fault())
        time.sleep(0.02)


def listens():
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", PORT)) == 0


def used(cgroup):
    """The congestion control of a connection to the port that was accepted in this cgroup."""
    code = (
        "import socket; own = socket.create_server(('127.0.0.2', %d)); peer = socket.create_connection(own.getsockname()); "
        "print(own.accept()[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b'\\0').decode())" % PORT
    )
    enter = lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    return subprocess.run([sys.executable, "-c", code], preexec_fn=enter, capture_output=True, check=True, text=True).stdout.strip()


DEFAULT = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip()
FAULTS = [
    "kill_the_command", "kill_the_server", "kill_the_clients", "fill_the_disk", "remove_the_cgroup", "replace_the_program", "forget_the_list",
]


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    faults = sys.argv[3:4] or FAULTS
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    root = pathlib.Path(next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2"))
    scratch = pathlib.Path(tempfile.mkdtemp())
    tool = scratch / "load"
    counts, failed, connections = collections.Counter(), [], 0
    try:
        source = pathlib.Path(__file__).with_name("load.c")
        subprocess.run(["cc", "-O2", "-pthread", "-o", tool, source], check=True)
        for number in range(trials):
            fault = rng.choice(faults)
            with Trial(number, rng, root, scratch, tool) as trial:
                try:
                    trial.begin("400k" if fault == "fill_the_disk" else None)
                    goes_on, runs = getattr(trial, fault)()
                    trial.check(fault, goes_on, runs)
                except (AssertionError, OSError, subprocess.SubprocessError) as error:
                    failed.append(fault)
                    print(f"trial {number}, {fault}: {error}", file=sys.stderr)
                connections += trial.done() if trial.client else 0
            counts[fault] += 1
    finally:
        shutil.rmtree(scratch)
    for fault in faults:
        print(f"{fault.replace('_', ' ')}: {counts[fault]} trials, {failed.count(fault)} failed")
    print(f"faults: {trials} trials, {len(failed)} failed; {connections} connections")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
