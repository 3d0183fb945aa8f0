#!/usr/bin/env python3
"""Checks the repository's files: links in Markdown have a target, files keep to their length and have their header,
no page counts "1 claims", and doc comments are plain English.
It reads the files that git tracks or would track, and prints one line per fault; exit 1 if there is one.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os
import re
import subprocess
import sys
from urllib.parse import unquote

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LENGTH_MAX = {"ARCHITECTURE.md": 150}
SOURCE_LENGTH_MAX = 600
SOURCES = (".rs", ".py", ".js", ".css", ".sh")
LICENCE_LINE = "SPDX-License-Identifier: Apache-2.0 OR MIT"
VENDORED = "/vendor/"
# The README is read screen by screen; longer text belongs in docs/.
BYTES_MAX = {"README.md": 8192}
# A count of one before a plural, which no table or sentence may have; "1.1 packets" and "of 1 to 3 seeds" are right.
COUNTED = ("ACKs algorithms calls cases cells claims combinations connections demands expectations files flows objects packets"
           " paths records rounds runs scenarios seeds segments tests users").split()
ONE_OF_MANY = re.compile(rf"(?<![\w.,/…–-])1 (?:{'|'.join(COUNTED)})\b")
# Shares of doc comments whose first line opens with a question word, or whose subject is made to speak or think.
# Other Rust projects: rustls 4.0 % and 0.1 %, tokio 1.2 % and 0.1 %.
DIALECT = {
    "opens with What, Whether, Where, How": (re.compile(r"^(What|Whether|Where|How|Why|When|Who|Whom|Whose|Which)\b"), 0.01),
    "has a host, a page or an algorithm speak or think": (
        re.compile(r"\b(told|tells|hears?|heard|says|said|thinks|asks|asked|knows|wants|learnt|learns|believes?|sees)\b"), 0.003),
}
FIRST_DOC_LINE = re.compile(r"(?:^|\n)(?!\s*//[/!])[^\n]*\n\s*//[/!] ([^\n]*)|\A\s*//[/!] ([^\n]*)")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def tracked():
    """Files of the repository, except those in .gitignore."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for path in set(out.stdout.splitlines()) if os.path.isfile(os.path.join(ROOT, path)))


def read(path):
    """A file's text."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", FENCE.sub("", text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        again = seen.get(slug, 0)
        seen[slug] = again + 1
        found.add(f"{slug}-{again}" if again else slug)
    return found


def link_faults(path, text):
    """Links to missing targets in the repository."""
    blank = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    for number, line in enumerate(blank.splitlines(), 1):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue  # another site: checking it would need the network
            file, _, anchor = target.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(path), unquote(file))) if file else path
            full = os.path.join(ROOT, there)
            if there.startswith("..") or not os.path.exists(full):
                yield f"{path}:{number}: link to {target!r}, which is not there"
            elif anchor and there.endswith(".md") and anchor not in anchors(read(there)):
                yield f"{path}:{number}: link to {target!r}, but {there} has no such heading"


def plural_faults(path, text):
    """Plurals after a count of one, in prose and in the output of commands."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in ONE_OF_MANY.findall(line):
            yield f"{path}:{number}: {found!r}: one has no plural"


def source_faults(path, text):
    """Length and header of one file."""
    limit = LENGTH_MAX.get(path, SOURCE_LENGTH_MAX if path.endswith(SOURCES) else None)
    lines = text.count("\n")
    if limit is not None and lines > limit:
        yield f"{path}: {lines} lines, the limit is {limit}; split it by what it does"
    size = len(text.encode())
    if size > BYTES_MAX.get(path, size):
        yield f"{path}: {size} bytes, the limit is {BYTES_MAX[path]}; move what is longer into docs/"
    if path.endswith((".py", ".sh")) and LICENCE_LINE not in text[:1200]:
        yield f"{path}: no line {LICENCE_LINE!r} in its header"


def dialect_faults(texts):
    """Shares of doc comments, over all Rust files, that exceed their limits; the first comments of each."""
    places = [(path, first or top) for path, text in texts for first, top in FIRST_DOC_LINE.findall(text)]
    for what, (pattern, limit) in DIALECT.items():
        found = [f"{path}: {line}" for path, line in places if pattern.search(line)]
        if len(found) > limit * len(places):
            yield f"{len(found)} of {len(places)} doc comments: the first line {what}; the limit is {limit:.1%}"
            yield from (f"  {line}" for line in found[:20])


def main():
    """Checks everything and exits."""
    paths = [path for path in tracked() if VENDORED not in f"/{path}"]
    faults, pages, rust = [], 0, []
    for path in paths:
        if not path.endswith((*SOURCES, ".md")):
            continue
        text = read(path)
        faults += source_faults(path, text)
        if path.endswith(".rs"):
            rust.append((path, text))
        if path.endswith(".md"):
            pages += 1
            faults += link_faults(path, text)
            faults += plural_faults(path, text)
    faults += dialect_faults(rust)
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    print(f"{pages} pages: every link leads somewhere; {len(paths)} files keep their length")


if __name__ == "__main__":
    main()
