#!/usr/bin/env python3
"""A policy of `bbrlab host policy` under faults and under load: policy.py faults [TRIALS [SEED [FAULT]]] | load [SECONDS [RATE]]

faults  Each trial puts a policy in force on a cgroup of its own, loads it, and injects one of FAULTS at a random time while the policy is
        replaced, removed or at rest. No client may lose a connection; new connections get what the policy before says, or the one after, or
        the host's default where the fault takes the policy away; the next `policy` commands work, and leave nothing behind.
load    Opens and closes RATE connections a second (10,000) for SECONDS (600) under a policy with half a million networks. Each must have the
        congestion control of the rule that `policy explain` names.
As root, in mount and network namespaces of its own (tools/ab.sh policy-faults, policy-load); $BBRLAB is the command.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from faults import BBRLAB, BEGIN_S, DEFAULT, END_S, PORT, Trial, listens, until, used

OLD = '[[rule]]\nname = "old"\nalgorithm = "reno"\n'
NEW = '[[rule]]\nname = "new"\nalgorithm = "bbr3-linux"\n'
NAMES = {OLD: "reno", NEW: "bbr3_linux"}
AVAILABLE = pathlib.Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
PINS = pathlib.Path("/sys/fs/bpf/bbrlab")


def policy(*arguments, check=True, **more):
    return subprocess.run([BBRLAB, "host", "policy", *arguments], capture_output=True, check=check, text=True, **more)


class PolicyTrial(Trial):
    def file(self, text):
        path = self.dir / f"{NAMES[text]}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, text):
        """The words that put a policy in force, or remove it."""
        words = [BBRLAB, "host", "policy"]
        return [*words, "apply", self.file(text), "--cgroup", self.cgroup.name] if text else [*words, "remove"]

    def begin_policy(self):
        self.server = subprocess.Popen([self.tool, "serve", str(PORT), "4", "2000"], preexec_fn=self.enter)
        until(listens, BEGIN_S, lambda: "no server")
        self.before, self.after = self.rng.choice([(OLD, NEW), (NEW, OLD), (OLD, None), (NEW, None), (None, NEW)])
        if self.before:
            subprocess.run(self.command(self.before), check=True, capture_output=True)
        self.load()
        time.sleep(0.2 + 0.3 * self.rng.random())

    def allowed(self):
        return {NAMES.get(self.before, DEFAULT), NAMES.get(self.after, DEFAULT)}

    def change(self, **more):
        return subprocess.Popen(self.command(self.after), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)

    def some_time(self):
        time.sleep(0.6 * self.rng.random())

    # The faults. Each returns the congestion controls that new connections may have.
    def kill_the_command(self):
        change = self.change()
        self.some_time()
        change.kill()
        change.wait()
        return self.allowed()

    def stop_the_command(self):
        """It hangs for a while; a second one waits for it, or is refused in a line."""
        change = self.change()
        self.some_time()
        change.send_signal(signal.SIGSTOP)
        other = subprocess.Popen(self.command(OLD), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)
        assert used(self.cgroup) in self.allowed() | {"reno"}, "a hung command"
        change.send_signal(signal.SIGCONT)
        for one in change, other:
            said = one.communicate(timeout=END_S)[1]
            assert one.returncode == 0 or said.count("\n") == 1, said
        return self.allowed() | {"reno"}

    def two_commands(self):
        both = [self.change(), subprocess.Popen(self.command(OLD), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)]
        for one in both:
            said = one.communicate(timeout=END_S)[1]
            assert one.returncode == 0 or said.count("\n") == 1, said
        return self.allowed() | {"reno"}

    def fill_the_disk(self):
        """Nothing can be written to /run."""
        filler = os.open("/run/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            os.close(filler)
        change = self.change()
        said = change.communicate(timeout=END_S)[1]
        assert change.returncode == 0 or said.count("\n") == 1, said
        os.unlink("/run/filler")
        return self.allowed()

    def run_out_of_memory(self):
        """The kernel ends the command for want of memory, or refuses it memory."""
        limit = pathlib.Path(f"/sys/fs/cgroup/memory/{self.cgroup.name}")
        if not limit.parent.is_dir():
            limit_memory = lambda: resource.setrlimit(resource.RLIMIT_AS, (30 << 20, 30 << 20))
            change = self.change(preexec_fn=limit_memory)
            change.communicate(timeout=END_S)
            return self.allowed()
        limit.mkdir()
        try:
            (limit / "memory.limit_in_bytes").write_text(str(self.rng.randint(1, 12) << 20), encoding="ascii")
            enter = lambda: (limit / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            self.change(preexec_fn=enter).communicate(timeout=END_S)
        finally:
            until(lambda: not (limit / "cgroup.procs").read_text(encoding="ascii"), END_S, lambda: "the command is still there")
            limit.rmdir()
        return self.allowed()

    def remove_the_cgroup(self):
        change = self.change()
        self.some_time()
        for process in (self.cgroup / "cgroup.procs").read_text(encoding="ascii").split():
            (self.root / "cgroup.procs").write_text(process, encoding="ascii")
        self.cgroup.rmdir()
        change.communicate(timeout=END_S)
        return {DEFAULT}

    def detach_the_program(self):
        """Another user takes it from the hook."""
        links = json.loads(subprocess.run(["bpftool", "-j", "link", "show"], capture_output=True, check=True).stdout)
        inode = self.cgroup.stat().st_ino
        for link in links:
            if link.get("cgroup_id") == inode and link["type"] == "cgroup":
                subprocess.run(["bpftool", "link", "detach", "id", str(link["id"])], check=True)
        return {DEFAULT}

    def remove_the_pin(self):
        """Another user removes the pin: the kernel lets go of the policy."""
        change = self.change()
        self.some_time()
        for pin in PINS.glob("policy-link*"):
            pin.unlink(missing_ok=True)
        change.communicate(timeout=END_S)
        return self.allowed() | {DEFAULT}

    def forget_the_list(self):
        """A reboot clears /run, and nothing else here."""
        change = self.change()
        self.some_time()
        shutil.rmtree("/run/bbrlab", ignore_errors=True)
        change.communicate(timeout=END_S)
        return self.allowed()

    def unload_the_algorithm(self):
        """Another user unloads what the policy names; its connections get the default."""
        subprocess.run([BBRLAB, "host", "unload", "bbr3_linux"], check=False, capture_output=True)
        return self.allowed() | {DEFAULT}

    def verify(self, allowed):
        seen = self.done()
        found = used(self.cgroup if self.cgroup.exists() else self.root)
        assert found in allowed, f"a new connection has {found}, and not {' or '.join(sorted(allowed))}"
        until(lambda: self.done() > seen + 50, END_S, lambda: "the clients stand still")
        assert self.client.poll() is None, f"a connection was lost: {(self.dir / 'client').read_text(encoding='utf-8')}"
        # The next commands work: the policy can be replaced and removed, if there is a cgroup to put it on.
        if self.cgroup.exists():
            said = subprocess.run(self.command(NEW), capture_output=True, check=False, text=True)
            assert said.returncode == 0, f"the next apply: {said.stderr}"
            assert used(self.cgroup) == "bbr3_linux", "the next policy is not in force"
        said = policy("remove", check=False)
        assert said.returncode == 0, f"remove: {said.stderr}"
        # A name that was loaded before /run was cleared belongs to no list; `host status` shows it, `host unload` takes it.
        if "bbr3_linux" in AVAILABLE.read_text(encoding="ascii"):
            said = subprocess.run([BBRLAB, "host", "unload", "bbr3_linux"], capture_output=True, check=False, text=True)
            assert self.fault == "forget_the_list" and said.returncode == 0, f"bbr3_linux is still there: {said.stderr}"
        until(lambda: "bbr3_linux" not in AVAILABLE.read_text(encoding="ascii"), END_S, lambda: "bbr3_linux is still there")
        assert policy("remove").stdout == "no policy is in force\n"
        if self.cgroup.exists():
            assert used(self.cgroup) == DEFAULT, "the default is another than before"
            shown = subprocess.run(["bpftool", "-j", "cgroup", "show", self.cgroup], capture_output=True, check=True).stdout
            assert not shown.strip() or not json.loads(shown), f"a program is left on the cgroup: {shown}"
        assert not PINS.exists(), f"pins are left: {[*PINS.iterdir()]}"
        left = [file for file in os.listdir("/run/bbrlab") if file != "lock"]
        assert not left, f"files are left: {left}"


FAULTS = [
    "kill_the_command", "stop_the_command", "two_commands", "fill_the_disk", "run_out_of_memory", "remove_the_cgroup", "detach_the_program",
    "remove_the_pin", "forget_the_list", "unload_the_algorithm",
]


def under_faults(root, scratch, tool, trials, seed, chosen):
    rng = random.Random(seed)
    counts, failed, connections = collections.Counter(), [], 0
    for number in range(trials):
        fault = chosen[number % len(chosen)]
        with PolicyTrial(number, rng, root, scratch, tool) as trial:
            trial.fault = fault
            try:
                trial.begin_policy()
                trial.verify(getattr(trial, fault)())
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed.append(fault)
                change = f"{NAMES.get(trial.before, 'none')} to {NAMES.get(trial.after, 'none')}"
                print(f"trial {number}, {fault}, {change}: {error}", file=sys.stderr)
                policy("remove", check=False)
                subprocess.run([BBRLAB, "host", "unload", "bbr3_linux"], check=False, capture_output=True)
            connections += trial.done() if trial.client else 0
        counts[fault] += 1
    for fault in chosen:
        print(f"{fault.replace('_', ' ')}: {counts[fault]} trials, {failed.count(fault)} failed")
    print(f"policy faults: {trials} trials, {len(failed)} failed; {connections} connections")
    return not failed


def under_load(root, scratch, tool, seconds, rate):
    with PolicyTrial(0, random.Random(1), root, scratch, tool) as trial:
        networks = trial.dir / "many.txt"
        with networks.open("w", encoding="ascii") as file:
            file.writelines(f"{20 + n // 65536}.{n // 256 % 256}.{n % 256}.0/24\n" for n in range(500_000))
        written = (
            'default = "reno"\n[[rule]]\nname = "many"\nclients = ["many.txt", "127.1.0.0/16"]\nalgorithm = "bbr3-linux"\n'
            f'[[rule]]\nname = "others"\nclients = ["127.2.0.0/16"]\nports = [{PORT}]\nalgorithm = "cubic"\n'
            f'[[rule]]\nname = "far"\nclients = ["127.3.0.0/16"]\nrtt = ">= 80ms"\nalgorithm = "bbr3-linux"\n'
        )
        (trial.dir / "policy.toml").write_text(written, encoding="utf-8")
        policy("apply", trial.dir / "policy.toml", "--cgroup", trial.cgroup.name)
        kernel = {"bbr3-linux": "bbr3_linux"}
        wanted = []
        for network in range(1, 5):
            said = policy("explain", f"127.{network}.0.1:{PORT}", "--rtt", "0.1ms").stdout.splitlines()[-1]
            algorithm = said.split(": ")[1]
            wanted.append(kernel.get(algorithm, algorithm))
            print(f"explain 127.{network}.0.1:{PORT} --rtt 0.1ms: {said}")
        trial.server = subprocess.Popen([tool, "serve", str(PORT), "16", "1000", *wanted], preexec_fn=trial.enter)
        until(listens, BEGIN_S, lambda: "no server")
        progress = trial.dir / "progress"
        pathlib.Path("/proc/sys/kernel/bpf_stats_enabled").write_text("1", encoding="ascii")
        try:
            words = [tool, "fetch", str(PORT), "16", "1000", str(seconds), str(rate), progress, "4"]
            clients = subprocess.run(words, check=False)
        finally:
            pathlib.Path("/proc/sys/kernel/bpf_stats_enabled").write_text("0", encoding="ascii")
        count = int.from_bytes(progress.read_bytes()[:8], sys.byteorder)
        found = json.loads(policy("status", "--json").stdout)
        taken = [rule["taken"] for rule in found["rules"]]
        good = clients.returncode == 0 and trial.server.poll() is None and not any(rule["refused"] for rule in found["rules"])
        good = good and sum(taken) >= count
        print(f"{seconds} s of {count / seconds:.0f} connections a second: {count} connections, each under the rule that explain names: "
              f"{'yes' if good else 'NO'}; taken by rule {taken}; {found['ran_ns'] / max(count, 1):.0f} ns a connection")
        policy("remove")
        return good


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("faults", "load"):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    numbers = [int(word) for word in sys.argv[2:4]]
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("10000 65000", encoding="ascii")
    mounts = pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    root = pathlib.Path(next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2"))
    scratch = pathlib.Path(tempfile.mkdtemp())
    tool = scratch / "load"
    try:
        subprocess.run(["cc", "-O2", "-pthread", "-o", tool, pathlib.Path(__file__).with_name("load.c")], check=True)
        first, second = [*numbers, *((600, 10_000) if sys.argv[1] == "load" else (200, 1))[len(numbers):]]
        if sys.argv[1] == "load":
            return not under_load(root, scratch, tool, first, second)
        return not under_faults(root, scratch, tool, first, second, sys.argv[4:5] or FAULTS)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.exit(main())
