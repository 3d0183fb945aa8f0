#!/usr/bin/env python3
"""Breaks each rule of docs/spec-map.tsv in a copy, as given in docs/spec-mutants.tsv, and checks that the test of the rule's row fails.
It works on a copy, and exits with 1 if a broken rule goes undetected.
Use: `spec_mutants.py [name of the draft ...]`, or `make spec-mutants`; the copy and its build are in a directory that is removed.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORE = "crates/core"
# A mutation that loops forever is detected as well.
SECONDS_MAX = 120
# Each of them is built once, so the build time dominates.
PROFILE = {"CARGO_PROFILE_TEST_OPT_LEVEL": "0", "CARGO_PROFILE_TEST_DEBUG": "0", "CARGO_INCREMENTAL": "1"}


def table(name):
    """The rows of a table in docs, by the draft's name."""
    with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return {row[0]: row[1:] for row in rows}


def copied(scratch):
    """A workspace of core alone."""
    copy = os.path.join(scratch, "copy")
    shutil.copytree(os.path.join(ROOT, CORE), os.path.join(copy, CORE))
    shutil.copytree(os.path.join(ROOT, "docs"), os.path.join(copy, "docs"))
    with open(os.path.join(ROOT, "Cargo.toml"), encoding="utf-8") as file:
        manifest = re.sub(r"^members = .*$", f'members = ["{CORE}"]', file.read(), count=1, flags=re.M)
    write(os.path.join(copy, "Cargo.toml"), manifest)
    return copy


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def targets(tests):
    """The tests grouped by target, as cargo's arguments: core itself or a file of tests/."""
    found = {}
    for test in tests:
        module, name = test.split("::", 1)
        is_file = os.path.exists(os.path.join(ROOT, CORE, "tests", f"{module}.rs"))
        found.setdefault(("--test", module) if is_file else ("--lib",), []).append(name if is_file else test)
    return found


def fault(copy, environment, tests):
    """Result of these tests: None, "failed" or "compile"."""
    for target, names in targets(tests).items():
        command = ["cargo", "test", "--quiet", "--offline", "-p", "bbrlab-core", *target, "--", "--exact", *names]
        try:
            done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return "failed"
        if "could not compile" in done.stderr:
            sys.stderr.write(done.stderr)
            return "compile"
        if f"running {len(names)} test" not in done.stdout:
            sys.exit(f"spec_mutants: not all of these are tests of core: {', '.join(names)}\n{done.stderr}")
        if done.returncode != 0:
            return "failed"
    return None


def main():
    rules, mutations = table("spec-map.tsv"), table("spec-mutants.tsv")
    wanted = sys.argv[1:] or list(rules)
    unknown = [name for name in wanted if name not in rules or name not in mutations]
    if unknown:
        sys.exit(f"spec_mutants: no row or no mutation: {', '.join(unknown)}")
    counts = {}
    with tempfile.TemporaryDirectory(prefix="spec-mutants-") as scratch:
        copy = copied(scratch)
        environment = {**os.environ, **PROFILE, "CARGO_TARGET_DIR": os.path.join(scratch, "target")}
        if fault(copy, environment, sorted({rules[name][1] for name in wanted})):
            sys.exit("spec_mutants: a test fails on the sources as they are")
        for name in wanted:
            file, text, broken = mutations[name]
            path = os.path.join(copy, CORE, "src", file)
            with open(path, encoding="utf-8") as source:
                before = source.read()
            if before.count(text) != 1:
                verdict = "ABSENT"
            else:
                write(path, before.replace(text, broken))
                verdict = {None: "UNSEEN", "failed": "seen", "compile": "BROKEN"}[fault(copy, environment, [rules[name][1]])]
                write(path, before)
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{verdict:<6}  {name:<30} {file:<20} {rules[name][1]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    sys.exit(0 if set(counts) == {"seen"} else 1)


if __name__ == "__main__":
    main()
