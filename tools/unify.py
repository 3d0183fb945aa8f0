#!/usr/bin/env python3
"""Shows the libraries that CI builds more than once because two of its builds ask for different features.

The union of the features stands in crates/unify. Needs no build: cargo prints its plan, by an option that only its nightly has
unless RUSTC_BOOTSTRAP is set.

usage: tools/unify.py
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKSPACE = ["--workspace", "--exclude", "bbrlab-py"]
TESTS = ["test", *WORKSPACE, "--lib", "--bins", "--tests"]
# The builds of `make ci` in its debug profile, in their order.
BUILDS = {
    "tests": TESTS,
    "features": [*TESTS, "--features", "tune,bpf,quic"],
    "python": ["build", "-p", "bbrlab-py"],
}


def units(arguments):
    """What cargo would compile: each unit as (package, crate, kind, mode), features, and an identity that covers its dependencies."""
    command = ["cargo", arguments[0], "--locked", *arguments[1:], "--unit-graph", "-Z", "unstable-options"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    if done.returncode:
        sys.exit(f"unify: {done.stderr.strip()}")
    graph = json.loads(done.stdout)["units"]
    identities = {}

    def identity(index):
        if index not in identities:
            unit = graph[index]
            profile = {key: value for key, value in unit["profile"].items() if key != "name"}
            below = sorted(identity(dependency["index"]) for dependency in unit["dependencies"])
            identities[index] = hash((unit["pkg_id"], str(unit["target"]), unit["mode"], unit["platform"], str(unit["features"]), str(profile), tuple(below)))
        return identities[index]

    for index, unit in enumerate(graph):
        target = unit["target"]
        name = (unit["pkg_id"].split("/")[-1], target["name"], target["kind"][0], unit["mode"])
        yield name, tuple(unit["features"]), identity(index)


def main():
    sys.setrecursionlimit(10_000)
    built, features = set(), {}
    for step, arguments in BUILDS.items():
        plan = list(units(arguments))
        again = {(name, asked) for name, asked, identity in plan if identity not in built and name in features}
        print(f"{step}: {len(plan)} units, {sum(identity not in built for *_, identity in plan)} of them new, {len(again)} built before with others")
        for name, asked in sorted(again):
            if name[3] == "build" and asked not in features[name]:
                print(f"  {name[0]}: {', '.join(asked) or 'no feature'}; before {' or '.join(', '.join(had) or 'no feature' for had in sorted(features[name]))}")
        for name, asked, identity in plan:
            built.add(identity)
            features.setdefault(name, set()).add(asked)


if __name__ == "__main__":
    main()
