#!/usr/bin/env python3
"""LOOPBACK-QUIC: bbrlab get fetches from bbrlab serve over HTTP/3 through an emulated link that loses data and ACKs. Prints a table
in Markdown. Usage: loopback_quic.py [REPEATS (3)] [SIZE (10MiB)]   (root, as bbrlab emulate; $BBRLAB is the command)
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import json
import os
import shlex
import statistics
import subprocess
import sys

BBRLAB = os.environ.get("BBRLAB", "target/release/bbrlab")
# The emulator's capacity in packets of one MTU on two cores, with both QUIC endpoints beside it.
LINK = ["--rate", "400mbit", "--rtt", "2ms", "--buffer", "1000p"]
ALGORITHMS = ["s2n:cubic", "cubic", "s2n:bbr", "bbr1", "bbr3"]
LOSSES = ["0", "1", "10"]


def transfer(algorithm, loss, size, seed):
    """Rate of a whole transfer by elapsed time, in Mbit/s, and the share of its packets that were declared lost."""
    own = shlex.quote(BBRLAB)
    serve = f"{own} serve --memory {size} --quic $BBRLAB_SERVER_IP:4433 --cc {algorithm}"
    get = f"{own} get --insecure --json --output /dev/null https://$BBRLAB_SERVER_IP:4433/bytes/{size}"
    emulate = [BBRLAB, "emulate", *LINK, "--loss", f"{loss}%", "--ack-loss", f"{loss}%", "--seed", str(seed), "--data", "down",
               "--server", serve, "--", "sh", "-c", get]
    done = subprocess.run(emulate, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"loopback: {algorithm}, {loss} %: {done.stderr}")
    one = json.loads(done.stdout)["transfers"][0]
    return one["goodput_bps"] / 1e6, one["sender"]["retransmits"] / one["sender"]["packets"]


def shown(rates):
    """The median, and all values."""
    digits = lambda rate: f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}"
    return f"{digits(statistics.median(rates))} ({' '.join(digits(rate) for rate in sorted(rates))})"


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    size = sys.argv[2] if len(sys.argv) > 2 else "10MiB"
    print("| loss | " + " | ".join(f"{name}, Mbit/s" for name in ALGORITHMS) + " | bbr1/cubic | bbr3/cubic | s2n:bbr/s2n:cubic |")
    print("|---" * (len(ALGORITHMS) + 4) + "|")
    for loss in LOSSES:
        rates = {name: [] for name in ALGORITHMS}
        # Alternating, so that other load on the machine affects all of them.
        for seed in range(1, repeats + 1):
            for name in ALGORITHMS:
                rates[name].append(transfer(name, loss, size, seed)[0])
        middle = {name: statistics.median(all) for name, all in rates.items()}
        ratios = [middle["bbr1"] / middle["cubic"], middle["bbr3"] / middle["cubic"], middle["s2n:bbr"] / middle["s2n:cubic"]]
        cells = [shown(all) for all in rates.values()] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {loss} % | " + " | ".join(cells) + " |", flush=True)


main()
