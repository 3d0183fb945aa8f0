#!/usr/bin/env python3
"""Compares figures of the catalogue that README and docs quote with today's catalogue: the table of claims on a real kernel, and prose.
Use: `check_figures.py out/catalogue.json` to check (differences are printed; exit 1); `--update` writes today's figures into the table.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "docs/validation.md"
# Pages that quote a figure: the words around it, with one group a figure, and the expectations that it comes from.
QUOTED = [
    ("README.md", r"fair share (\S+) s after the first starts", [("F6", "time of convergence, flows 5")]),
    ("README.md", r"BBRv1 reaches (\S+) Mbit/s, CUBIC (\S+) Mbit/s",
     [("F8", "v1, goodput, loss behind the bottleneck, loss 1%"), ("F8", "CUBIC, goodput, loss 1%")]),
    ("README.md", r"BBRv1 retransmits (\S+) %, BBRv3 (\S+) %, CUBIC (\S+) %",
     [("IETF100", "v1, retransmitted, 0–60 s"), ("IETF100", "retransmitted, 0–60 s, cc bbr3"), ("IETF100", "CUBIC, retransmitted, 0–60 s")]),
    ("README.md", r"standing queue of (\S+) to (\S+) BDP",
     [("QUEUE-N", "v1, mean queue, 20–60 s, n 2"), ("QUEUE-N", "v1, mean queue, 20–60 s, n 16")]),
    ("README.md", r"equal shares with a buffer of (\S+) BDP", [("COMPETE", "buffer at which v1's share falls to one half")]),
    ("docs/roll-out.md", r"retransmits far more than CUBIC \((\S+) % against (\S+) %", [("IETF100", "v1, retransmitted, 0–60 s"), ("IETF100", "CUBIC, retransmitted, 0–60 s")]),
]


def shown(row):
    """Value, unit and verdict as `reproduce` prints them."""
    value = row["measured"]
    number = "nothing" if value is None else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"
    verdict = {"holds": "holds", "falls_short": "misses (explained)", "fails": "FAILS"}.get(row["verdict"], row["verdict"])
    return f"{number} {row['unit']}".strip() + f", {verdict}"


def table(text, rows):
    """The page with today's figures in the last column of its table of claims."""
    def line(old):
        cells = old.strip("| ").split(" | ")
        row = rows.get(tuple(cells[:2]))
        return "| " + " | ".join([*cells[:-1], shown(row)]) + " |" if row else old

    def part(found):
        lines = found[2].splitlines()
        return found[1] + "\n".join(lines[:2] + [line(old) for old in lines[2:]]) + "\n" + found[3]

    return re.sub(r"(<!-- claims -->\n)(.*?)(<!-- /claims -->)", part, text, flags=re.S)


def quoted(page, words, sources, rows):
    """Faults of one quotation: each figure must be the measured one, rounded to the digits that are written."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = re.search(words, file.read())
    if not found:
        return [f"{page}: nothing matches `{words}`"]
    faults = []
    for figure, source in zip(found.groups(), sources, strict=True):
        if source not in rows:
            faults.append(f"{page}: the catalogue has no `{' '.join(source)}`")
            continue
        measured = rows[source]["measured"]
        digits = len(figure.partition(".")[2])
        if abs(float(figure) - measured) > 0.5 * 10.0**-digits + 1e-9:
            faults.append(f"{page}: `{found[0]}` says {figure}; {' '.join(source)} is {measured:.3f}")
    return faults


def main():
    """Checks or updates, and exits."""
    parser = argparse.ArgumentParser(description="Holds quoted figures to the catalogue's.")
    parser.add_argument("catalogue", help="what `bbrlab reproduce --json` wrote")
    parser.add_argument("--update", action="store_true", help="write today's figures into the table of claims")
    args = parser.parse_args()
    try:
        with open(args.catalogue, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        parser.error(f"{args.catalogue}: {error.strerror if isinstance(error, OSError) else error}")
    rows = {(one["id"], row["what"]): row for one in document["experiments"] for row in one["expect"]}
    path = os.path.join(ROOT, TABLE)
    with open(path, encoding="utf-8") as file:
        old = file.read()
    new, faults = table(old, rows), []
    if args.update:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    else:
        pairs = zip(old.splitlines(), new.splitlines(), strict=True)
        faults += [f"{TABLE}: {a}\n  today: {b}" for a, b in pairs if a != b]
    for page, words, sources in QUOTED:
        faults += quoted(page, words, sources, rows)
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    print("quoted figures are those of the catalogue")


if __name__ == "__main__":
    main()
