#!/usr/bin/env python3
"""Draws docs/img/bbr-and-cubic.svg from runs of the command: RTT over time in a deep buffer, and goodput under random loss.
Use: `picture.py` writes it; `--check` exits with 1 if the committed one differs. `make picture` runs it.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import concurrent.futures
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = os.path.join(ROOT, "docs", "img", "bbr-and-cubic.svg")
COMMAND = os.environ.get("BBRLAB", os.path.join(ROOT, "target", "release", "bbrlab"))

# Name, label in the picture, dash pattern. The colours are those of the reports (palette.js), in light and dark.
ALGORITHMS = [("cubic", "CUBIC", "", "#c04a00", "#ff8638"), ("bbr1", "BBRv1", "", "#00568f", "#4f9fe8"),
              ("bbr3", "BBRv3", "7 3", "#a8407f", "#f0a3d4")]
DEEP = "--rate 50mbit --rtt 40ms --buffer 6bdp --duration 30s"
LOSSY = "--rate 100mbit --rtt 40ms --duration 30s --repeat 5"
LOSSES = [0.01, 0.03, 0.1, 0.3, 1, 2, 3, 5, 10, 15, 20]
BIN_S = 0.1

WIDTH, HEIGHT = 920, 330
TOP, BOTTOM = 58, 268
LEFT_PANEL, RIGHT_PANEL = (62, 440), (532, 850)


def bbrlab(flags, output):
    """Runs the command with an output flag, and returns its output."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "out" + output[1])
        subprocess.run([COMMAND, "run", *flags.split(), "--quiet", output[0], path], check=True)
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()


def rtt_series(algorithm):
    """Mean RTT in ms of each bin, as (seconds, ms)."""
    bins = {}
    for row in csv.DictReader(bbrlab(f"{DEEP} --flow {algorithm}", ("--csv", ".csv")).splitlines()):
        if row["metric"] == "rtt_us" and row["value"] and float(row["value"]) > 0:
            bins.setdefault(int(float(row["t_s"]) / BIN_S), []).append(float(row["value"]) / 1000)
    return [(BIN_S * (at + 0.5), sum(values) / len(values)) for at, values in sorted(bins.items())]


def goodput_series(algorithm):
    """Median goodput of the seeds in Mbit/s, as (loss in per cent, Mbit/s)."""
    def one(loss):
        result = json.loads(bbrlab(f"{LOSSY} --loss {loss}% --flow {algorithm}", ("--json", ".json")))
        return loss, result["summary"]["flows"][0]["goodput_bps"]["median"] / 1e6
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, LOSSES))


def panel(box, x_of, y_of, x_ticks, y_ticks, title, x_name):
    """Title, grid and axes of one panel."""
    left, right = box
    parts = [f'<text class="title" x="{left}" y="{TOP - 28}">{title}</text>']
    for value, text in y_ticks:
        y = y_of(value)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for value, text in x_ticks:
        parts.append(f'<text class="tick" x="{x_of(value):.1f}" y="{BOTTOM + 20}" text-anchor="middle">{text}</text>')
    parts.append(f'<text class="tick" x="{(left + right) / 2}" y="{BOTTOM + 42}" text-anchor="middle">{x_name}</text>')
    return parts


def line(points, name, dash):
    """A series as a path."""
    path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="line {name}" d="{path}"{dashed}/>'


def draw():
    """The picture as text."""
    rtts = {name: rtt_series(name) for name, *_ in ALGORITHMS}
    goodputs = {name: goodput_series(name) for name, *_ in ALGORITHMS}

    def scale(low, high, start, end):
        return lambda value: start + (value - low) / (high - low) * (end - start)

    seconds, ms = scale(0, 30, *LEFT_PANEL), scale(0, 300, BOTTOM, TOP)
    decades, mbit = scale(math.log10(LOSSES[0]), math.log10(LOSSES[-1]), *RIGHT_PANEL), scale(0, 100, BOTTOM, TOP)

    def loss(value):
        return decades(math.log10(value))

    parts = panel(LEFT_PANEL, seconds, ms, [(s, str(s)) for s in range(0, 31, 10)],
                  [(v, str(v)) for v in range(0, 301, 100)],
                  "Round-trip time, ms: 50 Mbit/s, buffer of 6 BDP", "seconds")
    parts += panel(RIGHT_PANEL, loss, mbit, [(v, f"{v:g} %") for v in (0.01, 0.1, 1, 10)],
                   [(v, str(v)) for v in range(0, 101, 25)],
                   "Goodput, Mbit/s: 100 Mbit/s, 40 ms", "random packet loss")
    at_loss = {"cubic": 0.1, "bbr3": 2, "bbr1": 3}
    for name, label, dash, *_ in ALGORITHMS:
        parts.append(line([(seconds(t), ms(value)) for t, value in rtts[name]], name, dash))
        parts.append(line([(loss(p), mbit(value)) for p, value in goodputs[name]], name, dash))
        value = dict(goodputs[name])[at_loss[name]]
        side = ("start", 8) if name == "bbr1" else ("end", -8)
        parts.append(f'<text class="label {name}" x="{loss(at_loss[name]) + side[1]:.1f}" '
                     f'y="{mbit(value) + (-8 if name == "bbr1" else 16):.1f}" text-anchor="{side[0]}">{label}</text>')
    peak = max(rtts["cubic"], key=lambda point: point[1])
    parts.append(f'<text class="label cubic" x="{seconds(16):.1f}" y="{ms(peak[1]) - 8:.1f}">CUBIC fills the buffer</text>')
    parts.append(f'<text x="{seconds(7.5):.1f}" y="{ms(98):.1f}">BBRv1 (solid) and BBRv3 (dashed) do not</text>')
    light = "".join(f".line.{name}{{stroke:{colour}}}.label.{name}{{fill:{colour}}}" for name, _, _, colour, _ in ALGORITHMS)
    dark = "".join(f".line.{name}{{stroke:{colour}}}.label.{name}{{fill:{colour}}}" for name, _, _, _, colour in ALGORITHMS)
    style = (".page{fill:#fff}text{font:13px system-ui,sans-serif;fill:#1c2430}.title{font-weight:600;font-size:14px}.tick{fill:#5a6472}"
             ".grid{stroke:#dfe3e8}.line{fill:none;stroke-width:2;stroke-linejoin:round}.label{font-weight:600}" + light
             + "@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}.tick{fill:#9aa5b0}.grid{stroke:#2b333d}" + dark + "}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            'aria-label="Left: in a deep buffer CUBIC raises the round-trip time to six times the path\'s own, BBR does not. '
            'Right: under random loss CUBIC loses most of its goodput, BBR does not.">\n'
            f"<style>{style}</style>\n"
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    """Draws, and writes or compares."""
    text = draw()
    if sys.argv[1:] == ["--check"]:
        with open(PICTURE, encoding="utf-8") as file:
            same = file.read() == text
        if not same:
            print(f"{os.path.relpath(PICTURE, ROOT)} is not what the runs give; if it should be: make picture, and look at it")
        sys.exit(0 if same else 1)
    os.makedirs(os.path.dirname(PICTURE), exist_ok=True)
    with open(PICTURE, "w", encoding="utf-8") as file:
        file.write(text)
    print(PICTURE)


if __name__ == "__main__":
    main()
