#!/bin/sh
# Fuzzes every target SECONDS (default 30) on stable Rust, two at a time; needs a C++ compiler for libFuzzer, no nightly, no cargo-fuzz.
# usage: fuzz/run.sh [SECONDS [TARGET…]]      on a crash: exit 1, and the command that reproduces it; 0 seconds: builds only
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -eu
cd "$(dirname "$0")"

seconds=${1:-30}
[ $# -gt 0 ] && shift
targets=${*:-capture conform_log core_events delivery_trace flow_flag measurement quic_adapters replay_log scenario_toml}
triple=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${FUZZ_TARGET_DIR:-$PWD/target}"
# Coverage by LLVM's own pass, as in cargo-fuzz; the sanitizers, which need nightly, would find nothing in safe code.
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
export RUSTFLAGS
cargo build --locked --release --quiet --target "$triple"
bin=$CARGO_TARGET_DIR/$triple/release
[ "$seconds" != 0 ] || exit 0

# Runs one target; its output goes to a file, so that the output of two does not mix.
fuzz_one() {
    corpus=corpus/$1
    mkdir -p "$corpus" "artifacts/$1" seeds/"$1"
    if "$bin/$1" "$corpus" "seeds/$1" -artifact_prefix="artifacts/$1/" -max_total_time="$seconds" \
        -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 >"artifacts/$1.log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "artifacts/$1.log")
        echo "$1: $runs inputs in $seconds s, no crash"
        return 0
    fi
    grep -a -m 3 -e panicked -e 'ERROR:' -A 1 "artifacts/$1.log" || tail -n 5 "artifacts/$1.log"
    input=$(sed -n 's/^.*Test unit written to //p' "artifacts/$1.log")
    echo "$1: crashed; repeat with: $bin/$1 $PWD/$input"
    return 1
}

status=0
first=
for target in $targets; do
    fuzz_one "$target" &
    if [ -z "$first" ]; then
        first=$!
    else
        wait "$first" || status=1
        first=
        wait $! || status=1
    fi
done
if [ -n "$first" ]; then
    wait "$first" || status=1
fi
exit $status
