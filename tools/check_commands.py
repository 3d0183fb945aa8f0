#!/usr/bin/env python3
"""Runs the commands shown in README and docs, and compares their output with that on the page.
In ```console blocks `$ ` starts a command, and `…` alone matches any lines. Differences are printed; exit 1.
Use: `check_commands.py` to check; `--update` writes today's output into the pages (a page's `…` lines stay if they still match).
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import argparse
import difflib
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "CONTRIBUTING.md", "examples/README.md", *sorted(glob.glob("docs/*.md", root_dir=ROOT))]
# Shown to the reader, not run here: they build, fetch or open something.
NOT_RUN = ("make", "git", "cargo", "cd", "xdg-open", "sudo")
COMMAND = os.environ.get("BBRLAB", "target/release/bbrlab")
# Output of `bbrlab reproduce`, if `make catalogue` has just run it.
CATALOGUE = os.environ.get("BBRLAB_CATALOGUE")
BLOCK = re.compile(r"(^```console\n)(.*?)(^```$)", re.M | re.S)
LIMIT_S = 300


def commands(block):
    """The block as (command, expected lines); a last line of `\\` continues a command."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append([line[2:], []])
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1].append(line)
    return found


def run(command):
    """The command's output, without trailing spaces, and its exit status."""
    if CATALOGUE and command.startswith("target/release/bbrlab reproduce |"):
        command = command.replace("target/release/bbrlab reproduce", f"cat {CATALOGUE}")
    command = command.replace("target/release/bbrlab", COMMAND)
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    text = done.stdout + done.stderr
    return [line.rstrip() for line in text.splitlines()], done.returncode


def matches(expected, got):
    """True if the lines are the expected ones; `…` matches any number of lines."""
    if not expected:
        return not got
    if expected[0] == "…":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and got[0] == expected[0].rstrip() and matches(expected[1:], got[1:])


def check(page, update):
    """Checks one page. Returns its faults, and the number of commands run."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read()
    faults, count = [], 0

    def visit(block):
        nonlocal count
        lines = []
        for command, expected in commands(block[2]):
            lines += ["$ " + command]
            if not command.startswith(NOT_RUN):
                count += 1
                got, status = run(command)
                if status not in (0, 1):
                    faults.append(f"{page}: `{command}` ended with {status}: {' / '.join(got[-2:])}")
                elif not matches(expected, got):
                    new = [*got]
                    diff = difflib.unified_diff(expected, got, "page", "command", lineterm="", n=0)
                    faults.append(f"{page}: `{command}` prints something else:\n" + "\n".join(diff))
                    expected = new
            lines += expected
        return block[1] + "".join(line + "\n" for line in lines) + block[3]

    changed = BLOCK.sub(visit, text)
    if update and changed != text:
        with open(os.path.join(ROOT, page), "w", encoding="utf-8") as file:
            file.write(changed)
    return faults, count


def main():
    """Checks all pages and exits."""
    parser = argparse.ArgumentParser(description="Holds the commands in README and docs to what they print.")
    parser.add_argument("--update", action="store_true", help="write what they print today into the pages")
    args = parser.parse_args()
    faults, count = [], 0
    for page in PAGES:
        page_faults, page_count = check(page, args.update)
        faults += page_faults
        count += page_count
    for fault in faults:
        print(fault)
    if faults:
        print("if the new output is right: python3 tools/check_commands.py --update, then read the difference")
        sys.exit(1)
    print(f"{count} commands print what their pages say")


if __name__ == "__main__":
    main()
