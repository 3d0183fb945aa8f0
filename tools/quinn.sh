#!/bin/bash
# Applies contrib/quinn/ to a copy of the published quinn-proto, runs that crate's own tests, then the adapter's and the backend's with it.
# usage: tools/quinn.sh [TEST_ARGUMENTS…]     for our tests, e.g. -- --nocapture
#        tools/quinn.sh build                 tests nothing, and builds a bbrlab in which --on quic:quinn is the patched one
# env: CARGO_TARGET_DIR (target)
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
work=${CARGO_TARGET_DIR:-target}/quinn
mkdir -p "$work"
work=$(cd "$work" && pwd)
patches=$PWD/contrib/quinn

cargo fetch --quiet --locked
version=$(sed -n '/^name = "quinn-proto"$/{n;s/^version = "\(.*\)"$/\1/p;}' Cargo.lock)
published=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/quinn-proto-"$version" | cut -d' ' -f1)
[ -f "$published/src/lib.rs" ] || { echo "quinn: no quinn-proto $version among cargo's sources, after cargo fetch" >&2; exit 2; }

# Copies, since neither cargo's sources nor our Cargo.lock may change.
rm -rf "$work/quinn-proto" "$work/bbrlab"
cp -r "$published" "$work/quinn-proto"
(cd "$work/quinn-proto" && for one in "$patches"/*.patch; do patch -p1 --fuzz=0 --silent <"$one"; done)
mkdir "$work/bbrlab"
git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
    xargs -0 cp --parents -t "$work/bbrlab"

export CARGO_TARGET_DIR=$work/target
patched=(--config "patch.crates-io.quinn-proto.path=\"$work/quinn-proto\"")
flags="${RUSTFLAGS:-} --cfg bbrlab_quinn_patched"
if [ "${1-}" = build ]; then
    cd "$work/bbrlab"
    RUSTFLAGS=$flags cargo build --quiet --release --package bbrlab --features quic "${patched[@]}"
    echo "$work/target/release/bbrlab"
    exit
fi
echo "quinn-proto $version with contrib/quinn: its own tests"
(cd "$work/quinn-proto" && cargo test --quiet --lib)
echo "the adapter with it"
cd "$work/bbrlab"
RUSTFLAGS=$flags cargo test --quiet --package bbrlab-quic --features backend "${patched[@]}" "$@"
