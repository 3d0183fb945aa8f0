#!/usr/bin/env python3
"""Lag under load by real tools beside the simulator's probe: irtt, with which flent measures latency, and iperf3 behind
`bbrlab emulate`, in the shape of flent's rrul: four flows in each direction that start 5 s after the latency flow. The simulator runs
the same path as `--workload rrul`.

Usage: lag.py [CASE…]   all cases unless some are named
       lag.py --list
Exit status: 0 if all figures agree, 1 if one does not or a run failed, 2 for wrong arguments or a missing requirement.
In real time, half a minute a case, with the privileges of `bbrlab emulate`. tools/setup.sh lag installs what is missing.
env: BBRLAB (target/release/bbrlab); IRTT (out/lag/usr/bin/irtt)
SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/release/bbrlab"))
IRTT = os.environ.get("IRTT", str(ROOT / "out/lag/usr/bin/irtt"))
INSTALL = "tools/setup.sh lag installs it"

# Seconds: the load begins, the figures begin, the end.
LOAD_S, MEASURE_S, END_S = 5, 10, 30
INTERVAL_MS = 20
SEEDS = 5
FLOWS = 4
# Most that a figure may differ. Ours, set before the first measurement; one run of real tools beside the simulator's median.
LIMITS = {"idle RTT, ms": 0.05, "RTT p50, ms": 0.1, "RTT p95, ms": 0.2, "down, Mbit/s": 0.05, "up, Mbit/s": 0.05}
RUN_LIMIT_S = 120

# Keys of `bbrlab run` and `emulate`. A cable link, an even link, and both with FQ-CoDel.
CASES = {
    "cable": {"rate": "50mbit", "rtt": "30ms", "buffer": "150ms", "up": "rate=10mbit,buffer=200ms"},
    "cable fq_codel": {"rate": "50mbit", "rtt": "30ms", "buffer": "1000p", "aqm": "fq_codel", "up": "rate=10mbit,buffer=1000p,aqm=fq_codel"},
    "even": {"rate": "20mbit", "rtt": "40ms", "buffer": "100ms"},
    "even fq_codel": {"rate": "20mbit", "rtt": "40ms", "buffer": "1000p", "aqm": "fq_codel"},
}
CONTROLS = ("cubic", "bbr1")


class Fault(Exception):
    """A run that failed."""


def refuse(message):
    """Ends with one line and status 2."""
    print(f"lag: {message}", file=sys.stderr)
    sys.exit(2)


def output_of(command):
    """Standard output of a command; a failure is a fault with the last line of its errors."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise Fault(f"{pathlib.Path(command[0]).name} ended with status {done.returncode}: {last}")
    return done.stdout


def path_options(path):
    """Options of `bbrlab run` and `emulate`."""
    return [word for key, value in path.items() for word in (f"--{key}", value)]


def percentile(values, share):
    """A percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measured(path, control):
    """Figures of irtt and iperf3."""
    # A server of iperf3 takes one test at a time.
    server = f"'{IRTT}' server >/dev/null 2>&1 & iperf3 -s -p 5201 >/dev/null 2>&1 & iperf3 -s -p 5202 >/dev/null 2>&1 & wait"
    load = f"-c $BBRLAB_SERVER_IP -P {FLOWS} -t {END_S - LOAD_S} -O {MEASURE_S - LOAD_S} -J"
    client = f"""set -e
        folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
        '{IRTT}' client -Q -i {INTERVAL_MS}ms -d {END_S}s --wait=2s -o "$folder/lag.json" $BBRLAB_SERVER_IP >&2 & lag=$!
        sleep {LOAD_S}
        iperf3 {load} -p 5201 >"$folder/up.json" & up=$!
        iperf3 {load} -p 5202 -R >"$folder/down.json"
        wait $up; wait $lag
        echo '['; cat "$folder/lag.json"; echo ,; cat "$folder/up.json"; echo ,; cat "$folder/down.json"; echo ']'"""
    text = output_of([BBRLAB, "emulate", *path_options(path), "--cc", control, "--server", server, "--", "sh", "-c", client])
    lag, up, down = json.loads(text)
    began = lag["round_trips"][0]["timestamps"]["client"]["send"]["wall"]
    samples = [((one["timestamps"]["client"]["send"]["wall"] - began) / 1e9, one["delay"]["rtt"] / 1e6)
               for one in lag["round_trips"] if one["lost"] == "false"]
    return figures([rtt for at, rtt in samples if at < LOAD_S], [rtt for at, rtt in samples if at >= MEASURE_S],
                   *(one["end"]["sum_received"]["bits_per_second"] for one in (down, up)))


def figures(idle, loaded, down_bps, up_bps):
    """Figures by name."""
    values = (statistics.median(idle), percentile(loaded, 0.5), percentile(loaded, 0.95), down_bps / 1e6, up_bps / 1e6)
    return dict(zip(LIMITS, values))


def simulated(path, control):
    """Medians of the simulator's runs."""
    runs = []
    for seed in range(1, SEEDS + 1):
        command = [BBRLAB, "run", *path_options(path), "--workload", "rrul", "--flow", f"{control}*{FLOWS}@{LOAD_S}s",
                   "--flow", f"{control}*{FLOWS}@{LOAD_S}s,direction=up", "--start-jitter", path["rtt"], "--seed", seed, "--json", "-"]
        loaded = json.loads(output_of([*command, "--duration", f"{END_S}s", "--warmup", f"{MEASURE_S}s"]))
        # The median of a run that is idle but for its last second.
        idle = json.loads(output_of([*command, "--duration", f"{LOAD_S + 1}s"]))
        rtt = loaded["probe"]["rtt_ms"]
        rates = [sum(flow["goodput_bps"] for flow in loaded["flows"][place:place + FLOWS]) / 1e6 for place in (0, FLOWS)]
        runs.append(dict(zip(LIMITS, (idle["probe"]["rtt_ms"]["p50"], rtt["p50"], rtt["p95"], *rates))))
    return {name: statistics.median(run[name] for run in runs) for name in LIMITS}


def cases_of(words):
    """Cases that the command line names."""
    if words == ["--list"]:
        print("cases:", ", ".join(CASES))
        sys.exit(0)
    if unknown := [word for word in words if word not in CASES]:
        refuse(f"{unknown[0]}: expected --list or some of {', '.join(CASES)}")
    return words or list(CASES)


def check_requirements():
    """Ends with status 2 if something is missing."""
    for program, remedy in ((BBRLAB, "make checked-full builds it, BBRLAB names another"), (IRTT, INSTALL), ("iperf3", INSTALL)):
        if not shutil.which(program):
            refuse(f"no {program}; {remedy}")
    try:
        output_of([BBRLAB, "emulate", "--", "true"])
    except Fault as fault:
        refuse(str(fault))


def main():
    names = cases_of(sys.argv[1:])
    check_requirements()
    print(f"real tools / simulator: one run of {END_S} s / median of {SEEDS} seeds; limits " + ", ".join(f"{100 * limit:.0f} %" for limit in LIMITS.values()))
    print(f"| case | control | {' | '.join(LIMITS)} |\n|{'---|' * (2 + len(LIMITS))}")
    wrong = []
    for name in names:
        for control in CONTROLS:
            try:
                real, model = measured(CASES[name], control), simulated(CASES[name], control)
            except (Fault, ValueError, KeyError, subprocess.TimeoutExpired) as fault:
                wrong.append(f"{name}, {control}: {fault}")
                continue
            print(f"| {name} | {control} | " + " | ".join(f"{real[key]:.3g} / {model[key]:.3g}" for key in LIMITS) + " |", flush=True)
            wrong += [f"{name}, {control}: {key} {real[key]:.3g} and {model[key]:.3g}" for key, limit in LIMITS.items()
                      if abs(model[key] / real[key] - 1) > limit]
    print("every figure agrees" if not wrong else f"{len(wrong)} differ:", *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
