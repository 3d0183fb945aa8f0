#!/bin/bash
# Finds flaky tests: runs each step ROUNDS times, every second time beside two busy processes.
# usage: [ROUNDS=20] tools/chance.sh STEP…      steps of the Makefile; the output of a failed round is in out/chance/STEP.N.log
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
rounds=${ROUNDS:-20}
mkdir -p out/chance
busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT

failures=0
for step in "$@"; do
    failed=()
    for round in $(seq "$rounds"); do
        busy=()
        if [ $((round % 2)) -eq 0 ]; then
            for _ in 1 2; do
                sh -c 'while :; do :; done' &
                busy+=($!)
            done
        fi
        log=out/chance/$step.$round.log
        if make --no-print-directory "$step" >"$log" 2>&1 </dev/null; then rm "$log"; else failed+=("$round"); fi
        if [ ${#busy[@]} -gt 0 ]; then
            kill "${busy[@]}" 2>/dev/null
            wait "${busy[@]}" 2>/dev/null
        fi
    done
    echo "$step: ${#failed[@]} of $rounds failed${failed:+: rounds ${failed[*]}}"
    failures=$((failures + ${#failed[@]}))
done
echo "$failures rounds failed"
[ $failures -eq 0 ]
