#!/usr/bin/env python3
"""Checks the drafts of issues in docs/upstream: each has its sections, names the checked text, and its patch applies to that text.
Use: `upstream.py [CHECKOUT [COMMIT]]`; CHECKOUT is a clone of ietf-wg-ccwg/draft-ietf-ccwg-bbr, COMMIT its newest by default.
Without a checkout the patches are only read. Prints one line per fault; exit 1 if there is one.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTES = "docs/draft-notes.md"
TEXT = "draft-ietf-ccwg-bbr.md"
PATCH = re.compile(r"^```diff\n(.*?)^```$", re.M | re.S)
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", re.M)


def read(path):
    """A file's text."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def git(*arguments, **options):
    """A finished git command, whose output is kept."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, **options)


def form_faults(path, text, commit):
    """Sections that a note lacks, or hunks whose length is not as stated."""
    for section in ("# ", "## Proposal", "## Patch"):
        if not re.search(rf"^{section}", text, re.M):
            yield f"{path}: no line that begins with {section!r}"
    if f"`{commit}`" not in text:
        yield f"{path}: does not name the checked commit, `{commit}` in {NOTES}"
    patches = PATCH.findall(text)
    if len(patches) != 1:
        yield f"{path}: {len(patches)} blocks of ```diff, expected 1"
    for patch in patches:
        heads = list(HUNK.finditer(patch))
        for head, after in zip(heads, [*heads[1:], None], strict=True):
            lines = patch[head.end():after.start() if after else None].lstrip("\n").splitlines()
            old, new = (sum(line[:1] in (" ", "", mark) for line in lines) for mark in "-+")
            if (old, new) != tuple(int(count or 1) for count in head.groups()):
                yield f"{path}: {head[0]} has {old} old and {new} new lines"


def patch_fault(text, directory):
    """Why the patch does not apply to the text in a directory; None if it does."""
    done = git("apply", "--check", "-", cwd=directory, input=PATCH.search(text)[1])
    return done.stderr.strip().replace("\n", "; ") or None if done.returncode else None


def main():
    """Checks everything and exits."""
    if len(sys.argv) > 3 or "-h" in sys.argv or "--help" in sys.argv:
        sys.exit(__doc__)
    table = read(NOTES)
    commit = re.search(r"commit `([0-9a-f]+)`", table)[1]
    paths = sorted(os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/upstream/draft/*.md"))
    faults = []
    for path in paths:
        faults += form_faults(path, read(path), commit)
        number = int(os.path.basename(path)[:2])
        if f"| {number} | [{read(path).splitlines()[0][2:]}](upstream/draft/{os.path.basename(path)})" not in table:
            faults.append(f"{path}: {NOTES} has no row with its number, title and link")
    checked = "no checkout given"
    if len(sys.argv) > 1 and not faults:
        at = sys.argv[2] if len(sys.argv) > 2 else "HEAD"
        shown = git("-C", sys.argv[1], "show", f"{at}:{TEXT}")
        if shown.returncode:
            sys.exit(f"{sys.argv[1]}: {shown.stderr.strip()}")
        with tempfile.TemporaryDirectory() as directory:
            # An own repository: within another one, git apply would skip a path that it does not have.
            git("init", "--quiet", directory)
            with open(os.path.join(directory, TEXT), "w", encoding="utf-8") as file:
                file.write(shown.stdout)
            for path in paths:
                fault = patch_fault(read(path), directory)
                if fault:
                    faults.append(f"{path}: {fault}")
        checked = f"every patch applies to {git('-C', sys.argv[1], 'rev-parse', '--short', at).stdout.strip()}"
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    print(f"{len(paths)} notes on the draft; {checked}")


if __name__ == "__main__":
    main()
