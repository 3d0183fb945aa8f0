#!/usr/bin/env python3
"""Writes the tables of docs/validation.md, docs/l4s.md and docs/quic.md from the output of `bbrlab validate --json` and `bbrlab reproduce --on uml --json`.
It reads the JSON of either, from any backend, and rewrites the tables between their markers.
Use: tools/validation.py out/validate.json out/uml.json…
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import os
import re
import sys

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")


def shown(verdict):
    """A verdict as the command's table shows it."""
    return "misses (explained)" if verdict == "falls_short" else verdict.replace("_", " ")


def short(value):
    """Three significant digits."""
    if value is None:
        return "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(head, rows):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def demands(agree):
    """Demands on all scenarios together."""
    rows = [[row["what"].replace("|", "\\|"), f"{row['measured']:.3f}", f"≤ {row['limit']}", "holds" if row["holds"] else "**fails**",
             "; ".join(row["worst"])] for row in agree["demands"]]
    return table(["requirement", "measured", "limit", "verdict", "largest deviations"], rows)


def scenarios(agree):
    """Every scenario, simulator / kernel, and the ratio."""
    rows = []
    # A metric that no scenario has gets no column.
    known = [nth for nth in range(len(agree["figures"])) if any(cell["figures"][nth]["sim"] is not None for cell in agree["scenarios"])]
    for cell in agree["scenarios"]:
        row = [cell["name"]]
        for figure in (cell["figures"][nth] for nth in known):
            if figure["ratio"] is None or not figure["real"]:
                row.append("–" if figure["sim"] is None else f"{short(figure['sim'])} / {short(figure['real'])}")
            else:
                row.append(f"{short(figure['sim'])} / {short(figure['real'])} = {figure['ratio']:.3f}")
        rows.append(row)
    return table(["scenario", *(agree["figures"][nth] for nth in known)], rows)


def stacks(documents):
    """Goodput and median RTT of every scenario in each QUIC stack, simulator / stack, and the ratio."""
    columns = ("goodput, Mbit/s", "RTT p50, ms")
    head, rows = ["scenario"], {}
    for document in documents:
        stack = document["with"].removeprefix("quic:")
        head += [f"{stack}: {column}" for column in columns]
        for cell in document["scenarios"]:
            figures = (cell["figures"][document["figures"].index(column)] for column in columns)
            row = rows.setdefault(cell["name"].replace("l4s: ", ""), [])
            row += [f"{short(one['sim'])} / {short(one['real'])} = {one['ratio']:.3f}" for one in figures]
    return table(head, [[name, *row] for name, row in rows.items()])


def claims(documents):
    """Every expectation with the real kernel's value and the simulator's."""
    rows = []
    for document in documents:
        for experiment in document["experiments"]:
            for row in experiment["expect"]:
                if row["verdict"] == "not_here":
                    continue
                note = re.search(r"simulator: (.*)$", row["note"] or "")
                measured = "nothing" if row["measured"] is None else f"{short(row['measured'])} {row['unit']}".strip()
                rows.append([experiment["id"], row["what"], row["expected"], measured, shown(row["verdict"]),
                             note.group(1) if note else ""])
    return table(["claim", "what", "expected", "real kernel", "verdict", "simulator"], rows)


def main():
    documents = [json.load(open(path, encoding="utf-8")) for path in sys.argv[1:]]
    parts = {}
    for document in documents:
        if "with" in document:
            first = document["scenarios"][0]["name"].split(": ")[0]
            matrix = first if first in ("l4s", "prague", "google") else document["with"]
            parts |= {f"{matrix}-demands": demands(document), f"{matrix}-scenarios": scenarios(document)}
    if quic := [document for document in documents if document.get("with", "").startswith("quic:")]:
        parts["quic-scenarios"] = stacks(quic)
    reproduced = [document for document in documents if "experiments" in document]
    if reproduced:
        parts["claims"] = claims(reproduced)
    for page in ("validation.md", "l4s.md", "quic.md"):
        path = os.path.join(DOCS, page)
        text = open(path, encoding="utf-8").read()
        for name, part in parts.items():
            text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda found: found[1] + part + "\n" + found[2], text, flags=re.S)
        open(path, "w", encoding="utf-8").write(text)


main()
