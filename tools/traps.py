#!/usr/bin/env python3
"""Puts each bug of another BBR into a copy of this one and checks that the test of that name fails.
It works on a copy, and exits with 1 if a bug goes undetected.
Use: `traps.py [part of a test's name]`, or `make mutants`; the copy and its build are in a directory that is removed.
"""
# SPDX-License-Identifier: Apache-2.0 OR MIT

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BBR3 = "crates/core/src/bbr3/"
SAMPLER = "crates/core/src/sampler.rs"
# A round limited by the application counts as a plateau of the path.
PLATEAU_BY_APPLICATION = (BBR3 + "full_pipe.rs", "is_done || ack.rs.is_app_limited || !self.seen.has_data", "is_done || !self.seen.has_data")
# Anything below a thousand packets in flight counts as application-limited.
ALL_MARKED = (BBR3 + "full_pipe.rs", "is_done || ack.rs.is_app_limited || !self.seen.has_data",
              "is_done || ack.in_flight < 1_000 * self.smss() || !self.seen.has_data")
# Low application-limited samples enter the filter, and make it forget; either alone does no harm.
MARKS_IGNORED = (BBR3 + "model.rs", "(delivery_rate >= self.max_bw || !is_app_limited)", "(delivery_rate > 0)",
                 BBR3 + "probe.rs", "if !ack.rs.is_app_limited {\n            self.model.advance_max_bw_filter();",
                 "if self.seen.delivery_rate > 0 {\n            self.model.advance_max_bw_filter();")
# package, test; then file, original text, buggy text, once or repeated
BUGS = [
    ("core", "pacing_not_enforced", BBR3 + "window.rs",
     "self.set_pacing_rate_with_gain(self.gains.pacing);", "self.set_pacing_rate_with_gain(UNIT);"),
    ("core", "loss_packets_counted_for_loss_events", BBR3 + "bounds.rs",
     "if seq != self.gap_end {", "if seq < u64::MAX {"),
    ("core", "reno_coexistence_in_bytes", BBR3 + "probe.rs",
     "self.target_inflight() < (rounds + 1).wrapping_mul(self.smss())", "self.target_inflight() < rounds + 1"),
    ("core", "first_packet_never_counted_as_delivered", SAMPLER,
     "self.count(volume);\n        if !self.newest.any",
     "if self.newest.token != PacketToken::NONE { self.count(volume); }\n        if !self.newest.any"),
    ("core", "samples_with_prior_delivered_0_discarded", SAMPLER,
     "if !self.newest.any {", "if !self.newest.any || self.newest.token.delivered == 0 {"),
    ("core", "u64_underflow_in_inflight_at_loss", BBR3 + "loss.rs",
     "tx_in_flight.saturating_sub(size)", "tx_in_flight.wrapping_sub(size)"),
    ("core", "initial_pacing_never_replaced_when_app_limited", BBR3 + "window.rs",
     "if !self.out.has_seen_rtt && srtt.is_some() {", "if srtt.is_none() {"),
    ("core", "wrap_after_4_gb_of_packets", "crates/core/src/shared.rs",
     "self.next_delivered = delivered;", "self.next_delivered = delivered as u32 as u64;"),
    ("core", "wrap_of_the_low_bits_in_a_token", SAMPLER,
     "(self.lost as u32).wrapping_sub(token.lost)", "(self.lost as u32).saturating_sub(token.lost)"),
    ("core", "bandwidth_over_estimated_and_its_standing_queue", SAMPLER,
     "Some(self.delivered.saturating_sub(packet.delivered))", "Some((self.delivered - packet.delivered) * 11 / 10)"),
    ("core", "growth_test_4_3_instead_of_5_4", BBR3 + "params.rs",
     "full_bw_growth: FineGain = 32_000", "full_bw_growth: FineGain = 34_133"),
    ("core", "max_bw_filter_advanced_more_than_once_a_cycle", BBR3 + "probe.rs",
     "self.probe.ack_phase = AckPhase::ProbeStarting;",
     "self.probe.ack_phase = AckPhase::ProbeStarting; self.model.advance_max_bw_filter();"),
    ("core", "app_limited_1", *PLATEAU_BY_APPLICATION),
    ("core", "app_limited_3", "crates/core/src/controller/mod.rs",
     "if before.packets == 0 {", "if before.packets.saturating_add(sent.packets) == 0 {"),
    ("core", "app_limited_4", *PLATEAU_BY_APPLICATION),
    ("core", "app_limited_5", *MARKS_IGNORED),
    ("core", "app_limited_6", SAMPLER,
     "self.delivered.saturating_add(in_flight).max(1);", "self.delivered.saturating_add(in_flight).max(1 << 40);"),
    ("core", "app_limited_7", SAMPLER,
     "if self.app_limited == 0 { 0 } else { APP_LIMITED }", "if self.app_limited == 0 { 0 } else { 0 }"),
    ("core", "app_limited_8", *ALL_MARKED),
    ("core", "app_limited_9", SAMPLER,
     "self.app_limited != 0 && self.delivered > self.app_limited", "self.app_limited == u64::MAX"),
    ("sim", "pacing_not_enforced", "crates/sim/src/tcp/sender.rs",
     "            self.wstamp += span;", "            let _ = span;"),
    ("sim", "app_limited_2", "crates/sim/src/tcp/limits.rs",
     "if unsent < u64::from(self.mss)\n            && self.host_queue == 0", "if unsent < u64::MAX\n            && self.host_queue == 0",
     "crates/sim/src/tcp/limits.rs",
     "self.cc.wants_app_limited_checks() && self.app.written == self.next_bytes", "self.cc.wants_app_limited_checks()"),
    ("sim", "app_limited_8", *ALL_MARKED),
]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def failed(copy, environment, package, test):
    """True if the test of that name fails. Exits if the test cannot be run."""
    command = ["cargo", "test", "--quiet", "--locked", "-p", f"bbrlab-{package}", "--test", "traps", test]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if "could not compile" in done.stderr:
        sys.exit(f"traps: {test}: the bug does not compile:\n{done.stderr}")
    if "running 0 tests" in done.stdout and "running 1 test" not in done.stdout:
        sys.exit(f"traps: {test}: bbrlab-{package} has no such test in tests/traps.rs")
    return done.returncode != 0


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    unseen = 0
    with tempfile.TemporaryDirectory(prefix="traps-") as scratch:
        copy = os.path.join(scratch, "copy")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("target", "out", ".git"))
        environment = {**os.environ, "CARGO_TARGET_DIR": os.path.join(scratch, "target")}
        for package, test, *edits in BUGS:
            if wanted not in test and wanted != package:
                continue
            before = {}
            for path, text, bug in zip(edits[::3], edits[1::3], edits[2::3]):
                full = os.path.join(copy, path)
                with open(full, encoding="utf-8") as file:
                    source = file.read()
                before.setdefault(full, source)
                if source.count(text) != 1:
                    sys.exit(f"traps: {path} does not hold this once: {text}")
                write(full, source.replace(text, bug))
            seen = failed(copy, environment, package, test)
            for full, source in before.items():
                write(full, source)
            unseen += not seen
            print(f"{'seen  ' if seen else 'UNSEEN'}  {package:<4}  {test:<50} {edits[0]}", flush=True)
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
