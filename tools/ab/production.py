#!/usr/bin/env python3
"""Each class's gain of an algorithm over a control, from a folder of tools/ab/production.sh: production.py DIR ALGORITHM CONTROL.
Exit 1 if a test misses it."""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import json
import math
import pathlib
import statistics
import sys

TESTS = {"connection": "by connection", "prefix": "by client prefix", "time": "by time"}
JUDGED = {"completion": "completion of 400 kB", "throughput": "throughput of 4 MB"}
SIZES = {"completion": "400kB", "throughput": "4MB"}


def main():
    folder, tested, control = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    read = lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    reports = {name: read(name) for name in ["control", "tested", *TESTS]}
    check(reports)
    classes = [line.split()[1] for line in (folder / "classes").read_text(encoding="utf-8").splitlines()]
    rows, missed = [], []
    for name in classes:
        for judged in JUDGED:
            if name == "shared" and judged == "completion":
                continue  # its clients fetch only large files
            separate = gain(judged, alone(reports["tested"], name, judged), alone(reports["control"], name, judged))
            row = [f"{name}, {JUDGED[judged]}", percent(separate), percent(simulated(folder, name, judged, tested, control))]
            for test in TESTS:
                found = line(reports[test], name, judged)
                low, high = found["gain_low"], found["gain_high"]
                if low is None:
                    row.append("too few")
                    continue
                row.append(f"{percent(found['gain'])} ({percent(low)} to {percent(high)}), {found['connections'] + found['control_connections']}")
                if not low - 0.05 <= separate <= high + 0.05:
                    missed.append(f"{row[0]}, {TESTS[test]}")
            rows.append(row)
    head = ["class", "separate runs", "simulator", *[f"{how} (95 %), connections" for how in TESTS.values()]]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print("intervals, widened by 5 points, that do not hold the gain of separate runs: " + ("; ".join(missed) or "none"))
    # If arms share a queue, a test by connection is biased; elsewhere it must not be.
    wrong = [one for one in missed if one != "shared, throughput of 4 MB, by connection"]
    sys.exit(1 if len(wrong) > len(rows) * len(TESTS) // 10 else 0)


def check(reports):
    """Checks that the load was complete, and that no record was lost."""
    for name, found in reports.items():
        counts = found["counts"]
        assert counts["ring_lost"] == counts["disk_lost"] == counts["no_memory"] == 0, (name, counts)
        assert all(arm["refused"] == arm["overridden"] == 0 for arm in found["arms"]), (name, found["arms"])
        assert not found["sample_ratio"]["is_mismatch"], (name, found["sample_ratio"])
        assert found["unclassed"] == 0, name


def line(found, name, judged):
    own = [one for one in found["gains"] if one["class"] == f"clients {name}" and one["judged_by"] == judged]
    assert own, f"no line of {name}, {judged}"
    return own[0]


def alone(report, name, judged):
    """The median under one algorithm alone, which has both arms."""
    found = line(report, name, judged)
    return (found["median"] + found["control_median"]) / 2


def gain(judged, own, control):
    return (control / own if judged == "completion" else own / control) - 1


def simulated(folder, name, judged, tested, control):
    """The ratio of the medians over seeds: of completion times, or of the goodput of flows that share their link."""
    medians = {}
    for cc in [control, tested]:
        runs = json.loads((folder / f"sim-{name}-{SIZES[judged]}-{cc}.json").read_text(encoding="utf-8"))["runs"]
        medians[cc] = statistics.median(flow["fct_s"] for run in runs for flow in run["flows"])
    return medians[control] / medians[tested] - 1


def percent(value):
    if value is None or math.isnan(value):
        return "–"
    return f"{100 * value:+.0f} %".replace("-", "−")


if __name__ == "__main__":
    main()
