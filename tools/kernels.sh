#!/bin/bash
# Boots Debian's own kernels under QEMU, and tries in each what `bbrlab` does to a kernel. Changes nothing on this machine.
# usage: tools/kernels.sh [--long | --runbook] [SERIES…]
#   SERIES    as in 6.1; `newest` is the newest one. Without any: 5.10 6.1 6.12 newest; with --long every series that Debian serves
#   --long    also a million recorded ACKs, the tests that kill a command at each step, and the runbook
#   --runbook the commands of docs/roll-out.md in their order, and nothing else
# env: BBRLAB the command (target/debug/bbrlab); DIFFERENTIAL the test program of crates/host/tests/differential.rs, HOST_TESTS that of
#      host.rs; JOBS guests at a time (2); BBRLAB_KERNELS_CACHE the directory that keeps the packages
# Each kernel is tried in two guests, one for the algorithms and one for the commands; with --long or --runbook in one.
# Logs go to out/kernels/SERIES-PART.log. A kernel whose packages cannot be had is skipped by name.
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

# prepare SERIES: gets a kernel and makes its initramfs; prints what to boot, a line for each guest.
prepare() {
    local series=$1 package root
    package=$(awk -v series="$series" '$1 == series { print $2 }' <<< "$available")
    [ -n "$package" ] || { echo "$series: skipped, Debian serves no such kernel" >> "$out/summary.txt"; return 0; }
    root=$(kernel_of "$package") || { echo "$series: skipped, $package cannot be had" >> "$out/summary.txt"; return 0; }
    "$here/image.sh" modules "$image/$series.cpio" "$root" || return
    cat "$image/programs.cpio" "$image/$series.cpio" > "$image/$series"
    rm "$image/$series.cpio"
    for part in ${long:-algorithms commands}; do echo "$series $part $root"; done
}

# boot SERIES PART ROOT: one guest, beside the others.
boot() {
    local series=$1 part=$2 root=$3 log=$out/$1-$2.log began=$SECONDS
    LIMIT=${long:+7200} "$here/boot.sh" "$root" "$image/$series" "bbrlab.parts=$part" > "$log" 2>&1 || true
    awk -v name="$series $part" -v seconds="$((SECONDS - began))" '
        sub(/\r$/, "") {}
        /^ok: / { passed++ }
        /^FAILED: / { failed++; print name ": " $0 }
        /^Linux / { version = $2 }
        /^end of tests/ { ended = 1 }
        END {
            if (!ended) { failed++; print name ": the kernel ended before the tests did" }
            print name ": " version ", " passed + 0 " passed, " failed + 0 " failed, " seconds " s"
            exit failed > 0
        }' "$log"
}
export -f boot
export out here image long

status=0
: > "$out/summary.txt"
# The newest first: it has the most to try.
for series in "${asked[@]}"; do
    [ "$series" != newest ] || series=$(tail -n 1 <<< "$available" | cut -d ' ' -f 1)
    echo "$series"
done | sort -Vru > "$image/asked"
while read -r series; do prepare "$series" || status=1; done < "$image/asked" > "$image/guests"
cat "$out/summary.txt"
xargs -r -P "${JOBS:-2}" -L 1 bash -c 'boot "$@"' boot < "$image/guests" | tee -a "$out/summary.txt" || status=1
ran=$(sed -n 's/ .* passed, .*//p' "$out/summary.txt" | sort -u | wc -l)
echo "kernels: $ran tried, $(grep -c ': skipped, ' "$out/summary.txt" || true) skipped; logs in out/kernels"
exit $status
