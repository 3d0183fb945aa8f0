#!/bin/bash
# Proves that crates/core needs no std, no allocator and no other crate: it builds for a target that has no std.
# usage: tools/no_std.sh      needs: rustup target add thumbv7em-none-eabi
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."

# `alloc` exists on that target too, but a crate must name it to use it.
if grep -rnE 'extern crate|^[^/]*\b(std|alloc)::' crates/core/src --include='*.rs' | grep -v '/tests\.rs:'; then
    echo "no_std: core names std, alloc or another crate in the lines above; core has none of them" >&2
    exit 1
fi
others=$(cargo tree --locked -q -p bbrlab-core -e normal,build --prefix none | tail -n +2)
if [ -n "$others" ]; then
    echo "no_std: core depends on $others; core depends on nothing" >&2
    exit 1
fi
cargo build --locked --release -p bbrlab-core --target thumbv7em-none-eabi
echo "core builds for thumbv7em-none-eabi: no std, no alloc, no dependency"
