#!/bin/bash
# Rebuilds bpf/cc and compares the objects with the committed ones. With another compiler version their bytes may differ:
# then they replace the committed ones for the duration of the comparison with native code.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."

objects=$PWD/bpf/cc/objects
new=$(realpath -m "${CARGO_TARGET_DIR:-target}")/bpf/objects
rm -rf "$new"
make -s -j"$(nproc)" -C bpf/cc OUT="$new"
versions=$(make -s -C bpf/cc versions)
differ=()
for object in "$objects"/*.bpf.o; do
    cmp -s "$object" "$new/$(basename "$object")" || differ+=("$(basename "$object")")
done
if [ ${#differ[@]} -eq 0 ]; then
    echo "bpf: $(ls "$objects"/*.bpf.o | wc -l) objects, the same bytes"
    exit
fi
if [ "$versions" = "$(cat "$objects/VERSIONS")" ]; then
    echo "bpf: of the same compiler other bytes: ${differ[*]}; commit what make -C bpf/cc builds" >&2
    exit 1
fi
echo "bpf: another compiler than $(tr '\n' ',' <"$objects/VERSIONS") so ${differ[*]} differ; comparing what they do"
kept=$(mktemp -d)
cp "$objects"/*.bpf.o "$kept"
trap 'cp "$kept"/*.bpf.o "$objects"; rm -rf "$kept"' EXIT
cp "$new"/*.bpf.o "$objects"
cargo test --locked -p bbrlab-host --features load --test differential -- --ignored
