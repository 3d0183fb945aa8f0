#!/bin/bash
# Compares golden tables with those committed in tests/golden; prints any difference and exits with status 1.
# usage: tools/golden.sh sim | aarch64 | claims [--update]
#   sim      every part of the simulator, on this machine
#   aarch64  the same table on aarch64 under qemu-user: the same bytes
#   claims   a few rows of each claim, from out/catalogue.json of `make catalogue`
#   --update  writes the file instead; review `git diff tests/golden`
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
update=${2-}
target=aarch64-unknown-linux-musl
built=${CARGO_TARGET_DIR:-target}

# hold FILE WHAT: compares standard input with FILE.
hold() {
    if [ "$update" = --update ]; then
        cat > "$1"
    else
        diff -u "$1" - || { echo "golden: $2 differs from $1; if that is meant: make golden-update" >&2; exit 1; }
    fi
}

case ${1-} in
    sim)
        cargo build --quiet --locked --workspace --exclude bbrlab-py --example golden
        "$built/debug/examples/golden" | hold tests/golden/sim.txt "this machine"
        ;;
    aarch64)
        # Uses the toolchain's own linker, so that no cross C compiler is needed.
        CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
            cargo build --quiet --locked --release -p bbrlab-sim --example golden --target $target
        update= # one machine writes the file, the other is compared with it
        qemu-aarch64 "$built/$target/release/examples/golden" | hold tests/golden/sim.txt aarch64
        ;;
    claims) python3 tools/golden_claims.py out/catalogue.json | hold tests/golden/claims.txt "the catalogue" ;;
    *)
        sed -n '2,7s/^# //p' "$0" >&2
        exit 2
        ;;
esac
