#!/bin/sh
# Proves that crates/core needs neither std nor an allocator, and uses integer arithmetic only:
# builds it with a caller of every event into one freestanding object, and checks the remaining symbols and instructions.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

flags='--edition 2024 -Copt-level=3 -Cpanic=abort -Ccodegen-units=1 -Cembed-bitcode=yes'
# shellcheck disable=SC2086
rustc $flags --cfg 'feature="variants"' --cfg 'feature="unstable-internals"' --crate-type rlib --crate-name bbrlab_core --out-dir "$out" \
    crates/core/src/lib.rs
# shellcheck disable=SC2086
rustc $flags -Clto=fat --crate-type staticlib --crate-name freestanding --extern bbrlab_core="$out/libbbrlab_core.rlib" \
    --out-dir "$out" tools/nostd/freestanding.rs
lib=$out/libfreestanding.a

fail() {
    echo "nostd: $1" >&2
    exit 1
}

nm -C "$lib" 2>/dev/null >"$out/symbols"
grep -q 'bbrlab_core_freestanding_run' "$out/symbols" || fail 'the freestanding user is missing from its own library'
if grep -E '\bstd::|\balloc::|__rust_alloc|__rust_dealloc|\bmalloc\b' "$out/symbols" | head -5 | grep .; then
    fail 'core needs std or an allocator: see the symbols above'
fi

# External symbols of the program after whole-program optimisation: memory primitives at most.
ar t "$lib" | grep '^freestanding\.' >"$out/objects"
(cd "$out" && ar x "$lib" $(cat objects))
wanted=$(cd "$out" && nm -u $(cat objects) | awk '{print $2}' | grep -vxE 'mem(cpy|move|set|cmp)|bcmp|' || true)
stray=$(printf '%s\n' "$wanted" | grep -vE '^$|core|compiler_builtins|^__(u|mul|div|mod|umod|udiv)[a-z]*3$|^rust_begin_unwind|^_?GLOBAL_OFFSET' || true)
[ -z "$stray" ] || fail "core wants from outside: $stray"

floats='[[:space:]]v?(add|sub|mul|div|sqrt|ucomi|comi|cvt[a-z0-9]*)s[sd][[:space:]]'
if (cd "$out" && objdump -d --no-show-raw-insn $(cat objects)) | grep -E "$floats" | head -5 | grep .; then
    fail 'core computes with floats: see the instructions above'
fi
echo "nostd: core runs without std, without an allocator and without floats"
