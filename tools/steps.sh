#!/bin/bash
# Runs all make targets one after the other, and prints the seconds that each took; then the five slowest and a last line,
# "N passed, N failed[, N skipped]".
# usage: tools/steps.sh TARGET…      A step whose tools are missing is skipped by name; with CI=true that is a failure.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail
cd "$(dirname "$0")/.."

passed=() failed=() skipped=() seconds=()
begin_all=$SECONDS
# Installed packages decide which features are built: they must not change between two steps that share a build.
tools/setup.sh "$@" >/dev/null 2>&1
seconds+=("$((SECONDS - begin_all)) installing")
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
    # A step has no terminal, so that its output is the same everywhere.
    if "${MAKE:-make}" --no-print-directory "$step" </dev/null; then
        passed+=("$step")
        echo "== $step: passed in $((SECONDS - begin)) s"
    else
        failed+=("$step")
        echo "== $step: FAILED after $((SECONDS - begin)) s; alone: make $step"
    fi
    seconds+=("$((SECONDS - begin)) $step")
done

echo
echo "slowest of $((SECONDS - begin_all)) s: $(printf '%s\n' "${seconds[@]}" | sort -rn | head -n 5 | awk '{ print $2 " " $1 " s" }' | paste -sd, | sed 's/,/, /g')"
[ ${#skipped[@]} -eq 0 ] || echo "skipped, tools are missing: ${skipped[*]}"
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}"
summary="${#passed[@]} passed, ${#failed[@]} failed"
[ ${#skipped[@]} -eq 0 ] || summary+=", ${#skipped[@]} skipped"
echo "$summary"
[ ${#failed[@]} -eq 0 ]
