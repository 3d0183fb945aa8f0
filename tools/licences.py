#!/usr/bin/env python3
"""Prints the licences of all that an artefact contains besides bbrlab: crates, the standard library, uPlot.
usage: tools/licences.py PACKAGE TARGET FEATURES      as in: tools/licences.py bbrlab x86_64-unknown-linux-gnu tune,host,quic

Each package is named with its licence and the place of its sources; each text stands once, below the packages that have it.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.I)
# libbpf-sys holds the sources of libraries that the system provides.
NOT_LINKED = {"elfutils", "zlib"}
MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def cargo(*args):
    """Output of cargo."""
    return subprocess.run(["cargo", *args, "--locked"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def linked(package, target, features):
    """(name, version) of the crates that are linked: neither macros nor what builds them."""
    kinds = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = cargo("tree", "--package", package, "--target", target, "--features", features, *kinds).splitlines()
    return {(name, version[1:]) for name, version, *_ in map(str.split, lines)}


def texts(folder):
    """The texts of a folder's licences, in the order of their paths."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        is_text = path.is_file() and path.suffix not in {".rs", ".h", ".c", ".html"}
        if is_text and FILE.match(path.name) and not NOT_LINKED & set(inside):
            yield path.read_text(encoding="utf-8", errors="replace")


def without_text(crate):
    """A text for a crate that holds none."""
    text = f"{crate['license']}. The package holds no text of it; its authors: {', '.join(crate['authors']) or 'not named'}."
    return f"{text}\n\n{MIT}" if "MIT" in crate["license"] else text


def parts(package, target, features):
    """(name with version, licence, sources, texts) of each part."""
    wanted = linked(package, target, features) | linked("bbrlab-web", "wasm32-unknown-unknown", "")
    for crate in json.loads(cargo("metadata", "--format-version", "1", "--all-features"))["packages"]:
        if crate["source"] and (crate["name"], crate["version"]) in wanted:
            folder = Path(crate["manifest_path"]).parent
            source = f"https://crates.io/crates/{crate['name']}/{crate['version']}"
            yield f"{crate['name']} {crate['version']}", crate["license"], source, list(texts(folder)) or [without_text(crate)]
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    own = f"Copyright (c) The Rust Project Contributors\n\n{MIT}"
    yield f"standard library of Rust {rust}", "MIT OR Apache-2.0", "https://github.com/rust-lang/rust", [own]
    if target.endswith("-musl"):
        yield "musl", "MIT", "https://musl.libc.org", [f"Copyright © 2005-2020 Rich Felker, et al.\n\n{MIT}"]
    vendored = ROOT / "crates/report/src/assets/vendor/uplot"
    yield "uPlot 1.6.32", "MIT", "https://github.com/leeoniya/uPlot", list(texts(vendored))


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.split("\n\n")[0])
    found = sorted(parts(*sys.argv[1:]), key=lambda part: part[0].lower())
    print("bbrlab is licensed under Apache-2.0 or MIT, and its BPF objects also under GPL-2.0-only, each at your option.")
    print("It contains these works of others. Their sources are at the addresses beside them, and bbrlab changed none of them.\n")
    users, whole = {}, {}
    for name, licence, source, own in found:
        print(f"{name}\n    {licence or 'see below'}; {source}")
        for text in own:
            key = " ".join(text.split())
            whole.setdefault(key, text)
            users.setdefault(key, []).append(name)
    for key, names in sorted(users.items(), key=lambda one: (-len(one[1]), one[1], one[0])):
        print(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{whole[key].strip()}")


main()
