#!/bin/bash
# Boots Debian's own kernels under QEMU, and tries in each what `bbrlab` does to a kernel. Changes nothing on this machine.
# usage: tools/kernels.sh [--long | --runbook] [SERIES…]
#   SERIES    as in 6.1; `newest` is the newest one. Without any: 5.10 6.1 6.12 newest; with --long every series that Debian serves
#   --long    also a million recorded ACKs, the tests that kill a command at each step, and the runbook
#   --runbook the commands of docs/roll-out.md in their order, and nothing else
# env: BBRLAB the command (target/debug/bbrlab); DIFFERENTIAL the test program of crates/host/tests/differential.rs, HOST_TESTS that of
#      host.rs; JOBS kernels at a time (2); BBRLAB_KERNELS_CACHE the directory that keeps the packages
# Logs go to out/kernels/SERIES.log. A kernel whose packages cannot be had is skipped by name.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD/tools/kernels
export architecture=amd64
out=$PWD/out/kernels
export BBRLAB=${BBRLAB:-$PWD/target/debug/bbrlab} DIFFERENTIAL=${DIFFERENTIAL:-} HOST_TESTS=${HOST_TESTS:-}

fail() { echo "kernels: $*" >&2; exit 2; }
long='' asked=()
for word; do
    case $word in
        --long) long=long ;;
        --runbook) long=runbook ;;
        newest | [1-9].[0-9] | [1-9].[0-9][0-9]) asked+=("$word") ;;
        *) fail "$word: write --long, --runbook, newest or a series, as in 6.12" ;;
    esac
done
[ "$(uname -m)" = x86_64 ] || fail "the kernels are for x86-64, this is $(uname -m)"
[ -x "$BBRLAB" ] || fail "no command at $BBRLAB; make checked-full builds it"

# shellcheck source=tools/kernels/packages.sh
. "$here/packages.sh"

mkdir -p "$cache" "$out"
apt_lists || exit 0
available=$(packages)
[ -n "$available" ] || { echo "kernels: skipped, Debian's package lists cannot be had"; exit 0; }
if [ ${#asked[@]} -eq 0 ]; then
    if [ -n "$long" ]; then mapfile -t asked < <(cut -d ' ' -f 1 <<< "$available"); else asked=(5.10 6.1 6.12 newest); fi
fi
image=$(mktemp -d)
trap 'rm -rf "$image"' EXIT
"$here/image.sh" programs "$image/programs.cpio"

# try SERIES: one kernel, in the background of the others.
try() {
    local series=$1 package root log began=$SECONDS
    log=$out/$series.log
    package=$(awk -v series="$series" '$1 == series { print $2 }' <<< "$available")
    [ -n "$package" ] || { echo "$series: skipped, Debian serves no such kernel" | tee "$log"; return 0; }
    root=$(kernel_of "$package") || { echo "$series: skipped, $package cannot be had" | tee "$log"; return 0; }
    "$here/image.sh" modules "$image/$series.cpio" "$root" || return
    cat "$image/programs.cpio" "$image/$series.cpio" > "$image/$series.all"
    LIMIT=${long:+7200} "$here/boot.sh" "$root" "$image/$series.all" "bbrlab.parts=${long:-short}" > "$log" 2>&1 || true
    rm -f "$image/$series.cpio" "$image/$series.all"
    awk -v series="$series" -v seconds="$((SECONDS - began))" '
        sub(/\r$/, "") {}
        /^ok: / { passed++ }
        /^FAILED: / { failed++; print series ": " $0 }
        /^Linux / { version = $2 }
        /^end of tests/ { ended = 1 }
        END {
            if (!ended) { failed++; print series ": the kernel ended before the tests did" }
            print series ": " version ", " passed + 0 " passed, " failed + 0 " failed, " seconds " s"
            exit failed > 0
        }' "$log"
}
export -f try kernel_of apt_private
export out here image available long

status=0
# The newest first: it has the most to try.
for series in "${asked[@]}"; do
    [ "$series" != newest ] || series=$(tail -n 1 <<< "$available" | cut -d ' ' -f 1)
    echo "$series"
done | sort -Vru | xargs -P "${JOBS:-2}" -I {} bash -c 'try "$1"' try {} | tee "$out/summary.txt" || status=1
ran=$(grep -c ' passed, ' "$out/summary.txt" || true)
echo "kernels: $ran tried, $(grep -c ': skipped, ' "$out/summary.txt" || true) skipped; logs in out/kernels"
exit $status
