#!/usr/bin/env python3
"""Effect of the kernel's clock rate (HZ) on ProbeRTT and on retransmission time-outs: one table, in Markdown.

Missing kernels are built by tools/uml/build.sh, 3 min of CPU each. The table has a row for each HZ and one
for the simulator. Needs no root.

usage: tools/uml/hz.py [HZ…]   (100 250 1000)
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
PATH = ["--rate", "10mbit", "--rtt", "40ms", "--buffer", "2bdp", "--flow", "bbr1", "--sample", "1ms"]
# Nothing arrives from here on, so only time-outs send.
DARK_S = 4.0


def series(args, kernel):
    """The flow's series by name: lists of (seconds, value)."""
    backend = ["--on", "uml"] if kernel else []
    env = dict(os.environ, **({"BBRLAB_UML_KERNEL": kernel} if kernel else {}))
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        subprocess.run([BBRLAB, "run", *backend, *PATH, *args, "--csv", file.name, "--quiet"], env=env, check=True)
        found = {}
        with open(file.name) as rows:  # the command replaces the file
            for row in csv.DictReader(rows):
                if row["kind"] == "flow":
                    found.setdefault(row["metric"], []).append((float(row["t_s"]), float(row["value"])))
    return found


def stays_at_four(cwnd):
    """Periods in which the window was at ProbeRTT's four packets."""
    stays, since = [], None
    for t, packets in cwnd:
        if packets <= 4 and since is None:
            since = t
        elif packets > 4 and since is not None:
            stays.append((since, t))
            since = None
    return stays


def rises(values):
    return [t for (t, now), (_, before) in zip(values[1:], values) if now > before]


def row(name, kernel):
    steady = series(["--duration", "45s"], kernel)
    stays = [stay for stay in stays_at_four(steady["cwnd"]) if stay[0] > 5]
    lengths = [1e3 * (end - start) for start, end in stays]
    gaps = [b[0] - a[0] for a, b in zip(stays, stays[1:])]
    # During ProbeRTT the RTT is that of the path alone: the tick rounds only the sender's reactions.
    dark = series(["--duration", "9s", "--schedule", f"{DARK_S:g}s:loss=100%"], kernel)
    last = max(t for t, _ in changes(dark["acked_bytes"]))
    again = [t for t in rises(dark["retransmitted"]) if t > last]
    # The tail loss probe is the first of them; time-outs follow, each interval twice the one before.
    steps = [1e3 * (b - a) for a, b in zip([last, *again], again)]
    show = lambda numbers, digits=0: ", ".join(f"{number:.{digits}f}" for number in numbers)
    return f"| {name} | {show(lengths)} | {show(gaps, 2)} | {show(steps[:4])} |"


def changes(values):
    return [now for now, before in zip(values[1:], values) if now[1] != before[1]]


def main():
    rates = sys.argv[1:] or ["100", "250", "1000"]
    print("| HZ | ProbeRTT: window at four, ms | from one to the next, s | last ACK to first repeat, and on to each next, ms |")
    print("|---|---|---|---|")
    for hz in rates:
        built = subprocess.run([ROOT / "tools/uml/build.sh"], env=dict(os.environ, UML_HZ=hz), check=True,
                               stdout=subprocess.PIPE, text=True)
        print(row(hz, built.stdout.strip().splitlines()[-1]), flush=True)
    print(row("simulator", None))


if __name__ == "__main__":
    main()
