#!/usr/bin/env python3
"""QUIC over real UDP: bbrlab get fetches from bbrlab serve over loopback, with the algorithms in turn. Prints a table in Markdown:
Gbit/s, CPU seconds per GB of both ends together, and each algorithm's ratio to the stack's own CUBIC of the same round.
With --link also over an emulated link of 100 Mbit/s and 20 ms: goodput and RTT (root).
Usage: udp.py [--link] [ROUNDS (9)] [SIZE (1GB)]   ($BBRLAB is the command)
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import json
import os
import shlex
import statistics
import subprocess
import sys

BBRLAB = os.environ.get("BBRLAB", "target/release/bbrlab")
ALGORITHMS = ["s2n:cubic", "s2n:bbr", "bbr3", "bbr1", "cubic"]
BASE = ALGORITHMS[0]
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(process):
    """CPU time of a process, user and system."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def loopback(algorithm, size):
    """Gbit/s and CPU seconds per GB of one transfer."""
    serve = [BBRLAB, "serve", "--memory", size, "--quic", "0", "--cc", algorithm]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            at = server.stdout.readline().split()[0]
            before = os.times()
            own = cpu_s(server.pid)
            get = [BBRLAB, "get", "--insecure", "--json", "--output", "/dev/null", f"{at}bytes/{size}"]
            done = subprocess.run(get, stdout=subprocess.PIPE, check=True)
            after = os.times()
            used = cpu_s(server.pid) - own
        finally:
            server.terminate()
    one = json.loads(done.stdout)["transfers"][0]
    used += after.children_user - before.children_user + after.children_system - before.children_system
    return one["goodput_bps"] / 1e9, used / (one["bytes"] / 1e9)


def link(algorithm):
    """Mbit/s, and median and 95th percentile of the RTT in ms, over 100 Mbit/s and 20 ms with a buffer of 4 BDP."""
    own = shlex.quote(BBRLAB)
    serve = f"{own} serve --memory 1GB --quic $BBRLAB_SERVER_IP:4433 --cc {algorithm}"
    get = f"{own} get --insecure --json --output /dev/null https://$BBRLAB_SERVER_IP:4433/bytes/200MB"
    emulate = [BBRLAB, "emulate", "--rate", "100mbit", "--rtt", "20ms", "--buffer", "4bdp", "--data", "down", "--server", serve,
               "--", "sh", "-c", get]
    done = subprocess.run(emulate, stdout=subprocess.PIPE, check=True)
    one = json.loads(done.stdout)["transfers"][0]
    return one["goodput_bps"] / 1e6, one["sender"]["rtt_p50_ms"], one["sender"]["rtt_p95_ms"]


def main():
    asked = [word for word in sys.argv[1:] if word != "--link"]
    rounds = int(asked[0]) if asked else 9
    size = asked[1] if len(asked) > 1 else "1GB"
    seen = {name: [] for name in ALGORITHMS}
    for number in range(rounds):
        # Each round starts with another algorithm.
        for name in ALGORITHMS[number % len(ALGORITHMS):] + ALGORITHMS[:number % len(ALGORITHMS)]:
            seen[name].append(loopback(name, size))
    print("| algorithm | Gbit/s: median (range) | CPU s/GB, both ends | Gbit/s, ratio to s2n:cubic | CPU, ratio |")
    print("|---|---|---|---|---|")
    for name, all in seen.items():
        rates, costs = zip(*all)
        ratio = lambda which: statistics.median(own[which] / base[which] for own, base in zip(all, seen[BASE]))
        print(f"| {name} | {statistics.median(rates):.2f} ({min(rates):.2f} … {max(rates):.2f}) | {statistics.median(costs):.2f} "
              f"| {ratio(0):.2f} | {ratio(1):.2f} |", flush=True)
    if "--link" in sys.argv[1:]:
        print("\n| algorithm | Mbit/s | RTT p50, ms | RTT p95, ms |\n|---|---|---|---|")
        for name in ALGORITHMS:
            rate, middle, high = link(name)
            print(f"| {name} | {rate:.1f} | {middle:.1f} | {high:.1f} |", flush=True)


main()
