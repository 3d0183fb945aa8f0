#!/usr/bin/env python3
"""Counts the instructions of the simulator and the library, and checks the counts against limits.
Needs cargo and valgrind; the wall clock plays no part.
Use: `bench.py` (the whole table), `--gate` (as in `make ci`), `--update` (keep today's counts as baseline),
`--adapters` (instructions that the adapters for QUIC stacks add to core; builds both stacks).
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import argparse
import concurrent.futures
import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BASELINE = os.path.join(ROOT, "tools", "bench-baseline.json")
# A count may exceed its baseline by this share; if it is lower by as much, the baseline is out of date.
SLACK = 0.05
ONE = "one bbr1, 10 Mbit/s, 40 ms"

# name, example, its bench, from, to (simulated seconds, or ACKs)
GATE = [
    (ONE, "cost", "one", "4", "8"),
    ("one cubic, 10 Mbit/s, 40 ms", "cost", "cubic", "4", "8"),
    ("six bbr1, 41 packets, 100 Mbit/s, 100 ms", "cost", "loss", "2", "3"),
    ("100 bbr1, 100 Mbit/s, 20 ms", "cost", "hundred", "2", "3"),
    ("one bbr1, 1 Gbit/s, 100 ms", "cost", "gigabit", "3", "3.2"),
    ("a run of 1 ms, besides reading its scenario", "cost", "short", "100", "200"),
]
FULL = [
    (ONE, "cost", "one", "10", "20"),
    ("one cubic, 10 Mbit/s, 40 ms", "cost", "cubic", "10", "20"),
    ("six bbr1, 41 packets, 100 Mbit/s, 100 ms", "cost", "loss", "10", "20"),
    ("1,000 bbr1, 1 Gbit/s, 20 ms", "cost", "thousand", "2", "3"),
    ("1,000 cubic, 1 Gbit/s, 20 ms", "cost", "thousand-cubic", "2", "3"),
    ("one bbr1, 10 Gbit/s, 100 ms", "cost", "fast", "3", "3.1"),
]
ACKS = [
    ("bbr1 + sampler, an ACK of two packets", "ack_cost", "bare-bbr1", "20000", "40000"),
    ("bbr3 + sampler, an ACK of two packets", "ack_cost", "bare-bbr3", "20000", "40000"),
    ("controller with bbr1, an ACK", "ack_cost", "bbr1", "20000", "40000"),
    ("controller with bbr3, an ACK", "ack_cost", "bbr3", "20000", "40000"),
    ("controller with cubic, an ACK", "ack_cost", "cubic", "20000", "40000"),
    ("bbr1 in a host as s2n-quic is one, an ACK", "ack_cost", "quic-bbr1", "20000", "40000"),
    ("bbr3 in a host as s2n-quic is one, an ACK", "ack_cost", "quic-bbr3", "20000", "40000"),
]
# Cost per ACK of the toy transport around the library, and of the tokens of sent data; it is subtracted.
TOY = ("", "ack_cost", "nothing", "20000", "40000")

# An adapter, and core driven by the same events.
ADAPTERS = [("s2n", "bytes"), ("noq", "packets")]

# Absolute limits, instructions.
LIMITS = {
    ONE: 1800,
    "one cubic, 10 Mbit/s, 40 ms": 1700,
    # Of the packets of seconds 2 to 3 a quarter is dropped (see docs/performance.md).
    "six bbr1, 41 packets, 100 Mbit/s, 100 ms": 2650,
    "100 bbr1, 100 Mbit/s, 20 ms": 4100,
    "one bbr1, 1 Gbit/s, 100 ms": 1350,
    "a run of 1 ms, besides reading its scenario": 13000,
    "1,000 bbr1, 1 Gbit/s, 20 ms": 4100,
    "one bbr1, 10 Gbit/s, 100 ms": 1350,
    "bbr1 + sampler, an ACK of two packets": 450,
    "bbr3 + sampler, an ACK of two packets": 550,
}
# Whole runs: name, benchmark, simulated seconds, CPU seconds, MB resident.
RUNS = [
    ("1,000 bbr1, 1 Gbit/s, 20 ms, 10 s", "thousand", "10", 3, 200),
    ("1,000 bbr1, 10 Gbit/s, 20 ms, 10 s", "fast-thousand", "10", 15, 500),
]
# Measured once elsewhere, by the same method: instructions per packet, and per ACK.
PACKET_REFERENCES = [
    ("ns-3.37 as Debian builds it", 206500),
    ("newest ns-3, optimised build", 110600),
    ("picoquic's simulator", 28700),
    ("a bare event loop in Rust, no real sender", 1300),
]
ACK_REFERENCES = [("s2n-quic's BBRv2", 2778), ("quinn's BBR", 756), ("s2n-quic's CUBIC", 227)]


def fail(line):
    sys.exit(f"bench: {line}")


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def build(*examples):
    """Builds examples, each a package, a name and options; returns the directory that holds them."""
    for package, example, *options in examples:
        command = ["cargo", "build", "-q", "--locked", "--profile", "dist", "-p", package, "--example", example, *options]
        if subprocess.run(command, cwd=ROOT).returncode:
            fail(f"example {example} does not build; see cargo's message above")
    target = json.loads(output("cargo", "metadata", "--format-version", "1", "--no-deps"))["target_directory"]
    return os.path.join(target, "dist", "examples")


def count(directory, example, bench, until):
    """Instructions of one run, and the packets or ACKs that it printed."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out"]
        done = subprocess.run(command + [os.path.join(directory, example), *bench.split(), until], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        fail(f"{example} {bench} {until} failed under valgrind: {done.stderr.strip().splitlines()[-1:]}")
    return int(found[1]), int(done.stdout)


def slope(directory, case):
    """Instructions between two points of a run, divided by the units processed between them, so that start and end do not count."""
    _, example, bench, start, end = case
    (before, some), (after, more) = count(directory, example, bench, start), count(directory, example, bench, end)
    return (after - before) / (more - some)


def measure(directory, cases):
    # A count does not depend on what runs beside it.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        slopes = list(pool.map(functools.partial(slope, directory), [*cases, *ACKS, TOY]))
    toy = slopes.pop()
    counts = {case[0]: value for case, value in zip(cases, slopes)}
    counts.update({case[0]: value - toy for case, value in zip(ACKS, slopes[len(cases):])})
    return {name: round(value) for name, value in counts.items()}


def machine():
    return {"machine": platform.machine(), "rustc": output("rustc", "--version").split()[1]}


def show(counts):
    """Prints the counts with their limits; returns the violations."""
    wrong = []
    for name, value in counts.items():
        limit = LIMITS.get(name)
        print(f"{name:<44} {value:>8,} instructions{'' if limit is None else f'   limit {limit:,}'}")
        if limit is not None and value > limit:
            wrong.append(f"{name}: {value:,} instructions, above its limit of {limit:,}")
    return wrong


def gate(directory, update):
    counts = measure(directory, GATE)
    wrong = show(counts)
    here = machine()
    if update:
        with open(BASELINE, "w", encoding="utf-8") as file:
            json.dump({**here, "counts": counts}, file, indent=2)
            file.write("\n")
        print(f"bench: baseline written for rustc {here['rustc']} on {here['machine']}")
        return wrong
    with open(BASELINE, encoding="utf-8") as file:
        baseline = json.load(file)
    if {key: baseline[key] for key in here} != here:
        print(f"bench: the baseline is for rustc {baseline['rustc']} on {baseline['machine']}, this is rustc "
              f"{here['rustc']} on {here['machine']}; only the absolute limits were applied")
        return wrong
    for name, value in counts.items():
        before = baseline["counts"].get(name)
        if before is None:
            wrong.append(f"{name}: not in tools/bench-baseline.json; run tools/bench.py --update")
        elif value > before * (1 + SLACK):
            wrong.append(f"{name}: {value:,} instructions, {value / before - 1:.0%} above the baseline of {before:,}")
        elif value < before * (1 - SLACK):
            print(f"bench: {name}: {1 - value / before:.0%} below the baseline; keep it with tools/bench.py --update")
    return wrong


def run_whole(directory, run):
    """CPU seconds (user) and MB resident of a whole run, without valgrind."""
    name, bench, seconds, cpu_limit, mb_limit = run
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        child = subprocess.Popen([os.path.join(directory, "cost"), bench, seconds], stdout=nothing)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        fail(f"cost {bench} {seconds} ended with status {child.returncode}")
    cpu, mb = usage.ru_utime, usage.ru_maxrss / 1024
    print(f"{name:<44} {cpu:>8.2f} s CPU   limit {cpu_limit}   {mb:>6.0f} MB   limit {mb_limit}")
    return [f"{name}: {cpu:.2f} s CPU and {mb:.0f} MB, limits {cpu_limit} s and {mb_limit} MB"] if cpu > cpu_limit or mb > mb_limit else []


def full(directory):
    print("Instructions a packet delivered over the bottleneck, and an ACK:")
    counts = measure(directory, FULL)
    wrong = show(counts)
    print("\nWhole runs:")
    for run in RUNS:
        wrong += run_whole(directory, run)
    print("\nOthers, by the same method, and how many times ours:")
    for name, value in PACKET_REFERENCES:
        print(f"{name:<44} {value:>8,} a packet   {value / counts[ONE]:>6.1f} x")
    for name, value in ACK_REFERENCES:
        ours = counts["controller with cubic, an ACK" if "CUBIC" in name else "bbr1 + sampler, an ACK of two packets"]
        print(f"{name:<44} {value:>8,} an ACK     {value / ours:>6.1f} x")
    return wrong


def adapters(directory):
    """Instructions an ACK of two packets and the sending of two: core alone, with the adapter, and the difference."""
    print(f"{'an ACK of two packets, two packets sent':<40} {'core':>8} {'adapter':>8} {'more':>6}")
    for algorithm in ("bbr1", "bbr3"):
        for stack, alone in ADAPTERS:
            without, within = (run_adapter(directory, host, algorithm) for host in (alone, stack))
            print(f"{algorithm + ' in ' + stack:<40} {without:>8,} {within:>8,} {within - without:>6,}")


def run_adapter(directory, host, algorithm):
    (before, some), (after, more) = (count(directory, "adapter_cost", f"{host} {algorithm}", until) for until in ("20000", "40000"))
    return round((after - before) / (more - some))


def main():
    parser = argparse.ArgumentParser(description="What the simulator and the library cost, in instructions.")
    parser.add_argument("--gate", action="store_true", help="the short form, compared with tools/bench-baseline.json")
    parser.add_argument("--update", action="store_true", help="write today's short form as the baseline")
    parser.add_argument("--adapters", action="store_true", help="what the adapters for QUIC stacks add; builds both stacks")
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        fail("valgrind is not installed; install it (Debian: apt install valgrind) to count instructions")
    if args.adapters:
        return adapters(build(("bbrlab-quic", "adapter_cost", "--features", "backend")))
    directory = build(("bbrlab-sim", "cost"), ("bbrlab-core", "ack_cost"))
    wrong = gate(directory, args.update) if args.gate or args.update else full(directory)
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
