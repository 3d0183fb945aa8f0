#!/usr/bin/env python3
"""Adds a dummy algorithm, scenario key and measure to copies of the sources, checks that each copy compiles, and compares the
number of files touched with the line "Files to touch: N." of docs/add-an-algorithm.md, add-a-key.md and add-an-experiment.md.
Use: tools/touches.py, or `make touches`. The copy is in a directory that is removed.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORE = "crates/core/src/"
PALETTE = "crates/report/src/assets/palette.js"

ALGORITHM = '''//! A window of twelve packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::algorithm::Algorithm;
use crate::event::{Ack, Init};
use crate::params::params;
use crate::sampler::RateSampler;

params! {
    /// The parameters of the dummy.
    DummyParams {
        /// The window.
        cwnd: Packets = 12, 1, 100_000_000, "ours";
    }
}

/// A dummy.
#[derive(Clone, Debug)]
pub struct Dummy {
    cwnd: u32,
}

impl Dummy {
    pub(crate) const fn new(params: &DummyParams, _init: &Init) -> Self {
        Self { cwnd: params.cwnd }
    }
}

impl Algorithm for Dummy {
    fn restart(&mut self, _init: &Init) {}

    fn on_ack(&mut self, _ack: &Ack, _sampler: &mut RateSampler) {}

    fn on_rto(&mut self, _ack: &Ack, _first: bool) {}

    fn cwnd(&self) -> u32 {
        self.cwnd
    }
}
'''
ROW = '''    Dummy(DummyParams) {
        name: "dummy",
        summary: "a window of twelve packets",
        source: "ours",
        defaults: DummyParams::default(),
        specs: [DummyParams::SPECS, &[]],
        runs: Dummy by Dummy::new,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("teal", 1, "circle"),
    }

'''
KEY = '''    /// Time added to the path's RTT
    detour: TimeSpan = TimeSpan(0);
    Condition "TIME", default "0s", set |scenario, text| scenario.detour = text.parse()?;
    example &["--detour", "10ms"];

'''
# What is added: page, files to check out of order, then (file, anchor, text before the anchor); an empty anchor is a new file.
ADDITIONS = {
    "algorithm": ("docs/add-an-algorithm.md", [
        (CORE + "dummy.rs", "", ALGORITHM),
        (CORE + "lib.rs", "mod fixed;", "mod dummy;\n"),
        (CORE + "lib.rs", "    pub use crate::event::{Ack, Lost, TxStart};", "    pub use crate::dummy::Dummy;\n"),
        (CORE + "registry/mod.rs", "use crate::event::Init;", "use crate::dummy::{Dummy, DummyParams};\n"),
        (CORE + "registry/mod.rs", "        LossBased(LossBased),", "        Dummy(Dummy),\n"),
        (CORE + "registry/mod.rs", "    Reno(RenoParams) {", ROW),
        (PALETTE, "'queue': ['grey', 0, 'circle']", "'dummy': ['teal', 1, 'circle'], "),
    ], ["cargo", "test", "--quiet", "--locked", "-p", "bbrlab-core", "--test", "algorithm_table"]),
    "key": ("docs/add-a-key.md", [
        ("crates/sim/src/scenario/keys.rs", "    /// Token-bucket policer in front of the queue", KEY),
        ("crates/sim/src/scenario/resolve.rs", ", |sum, link| sum.saturating_add(link.delay.0)))", ".saturating_add(self.detour.0)"),
    ], []),
    "measure": ("docs/add-an-experiment.md", [
        ("crates/lab/src/expect/register.rs", '    windowed(engine, "drop_ratio", RunView::drop_ratio);',
         '    engine.register_fn("duration_ms", |run: &mut RunView| run.setup.duration.as_nanos() as f64 / 1e6);\n'),
        ("experiments/README.md", "`duration_s()`", "`duration_ms()`, "),
    ], []),
}


def copy(to):
    """Copies what git tracks, and new files."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if os.path.isfile(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, name), os.path.join(to, name))


def insert(root, file, anchor, text):
    path = os.path.join(root, file)
    if not anchor:
        before = ""
    else:
        with open(path, encoding="utf-8") as opened:
            before = opened.read()
        if before.count(anchor) != 1:
            sys.exit(f"touches: {file}: {anchor!r} stands there {before.count(anchor)} times; adapt this script")
    with open(path, "w", encoding="utf-8") as opened:
        opened.write(before.replace(anchor, text + anchor) if anchor else text)


def main():
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))))
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        copy(root)
        tests = []
        for name, (page, edits, test) in ADDITIONS.items():
            for edit in edits:
                insert(root, *edit)
            tests += [test] if test else []
            files = len({file for file, *_ in edits})
            with open(os.path.join(ROOT, page), encoding="utf-8") as opened:
                stated = re.findall(r"Files to touch: (\d+)\.", opened.read())
            print(f"{name}: {files} files")
            if stated != [str(files)]:
                wrong += 1
                print(f"touches: {page} states {', '.join(stated) or 'no number'}; write \"Files to touch: {files}.\"", file=sys.stderr)
        for command in [["cargo", "check", "--quiet", "--locked", "--workspace", "--exclude", "bbrlab-py", "--bins"], *tests]:
            wrong += subprocess.run(command, cwd=root, env=env, check=False).returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
