#!/bin/bash
# Runs make targets one after the other, all of them, and counts; the last line is "N passed, N failed[, N skipped]".
# usage: tools/steps.sh TARGET…      A step whose tools are missing is skipped by name; with CI=true that is a failure.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail
cd "$(dirname "$0")/.."

passed=() failed=() skipped=()
# What is there decides what is built: it must not change between two steps that share a build.
tools/setup.sh "$@" >/dev/null 2>&1
for step in "$@"; do
    echo "== $step"
    begin=$SECONDS
    if ! tools/setup.sh "$step"; then
        if [ "${CI:-}" = true ]; then
            failed+=("$step")
        else
            skipped+=("$step")
        fi
        continue
    fi
    # No terminal for a step: what it prints is the same everywhere.
    if "${MAKE:-make}" --no-print-directory "$step" </dev/null; then
        passed+=("$step")
        echo "== $step: passed in $((SECONDS - begin)) s"
    else
        failed+=("$step")
        echo "== $step: FAILED; alone: make $step"
    fi
done

echo
[ ${#skipped[@]} -eq 0 ] || echo "skipped, tools are missing: ${skipped[*]}"
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
summary="${#passed[@]} passed, ${#failed[@]} failed"
[ ${#skipped[@]} -eq 0 ] || summary+=", ${#skipped[@]} skipped"
echo "$summary"
[ ${#failed[@]} -eq 0 ]
