#!/bin/sh
# Tests bbrlab-core as published on crates.io: packs it, unpacks it elsewhere, and runs its tests there, without the workspace.
# If a compiler of its rust-version is available, builds with that too: BBRLAB_MSRV_CARGO names its cargo.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -eu
cd "$(dirname "$0")/.."
target=$(cargo metadata --offline --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
# Always the same directory: a test keeps the path at which it was compiled.
out=$target/package/unpacked
rm -rf "$out"
mkdir -p "$out"

cargo package --quiet --offline --locked -p bbrlab-core --allow-dirty --no-verify
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
tar xzf "$target/package/bbrlab-core-$version.crate" -C "$out"
cd "$out/bbrlab-core-$version"
find . -name '*.rs' -exec touch {} + # a package's files all have the same date, by which cargo would miss a change
printf '\n[workspace]\n' >>Cargo.toml # the directories above are not its workspace
for file in README.md LICENSE-APACHE LICENSE-MIT; do
    [ -s "$file" ] || { echo "package: $file is missing" >&2; exit 1; }
done
# Features exempt from semantic versioning must be requested explicitly.
if sed -n '/^default = \[.*\]$/p; /^default = \[$/,/\]/p' Cargo.toml | grep -q unstable-internals; then
    echo "package: the feature unstable-internals, exempt from semantic versioning, is on by default" >&2
    exit 1
fi
# Outside the workspace its profile does not apply; unoptimised, the tests take over twice as long.
export CARGO_PROFILE_DEV_OPT_LEVEL=1
CARGO_TARGET_DIR=$target/package-test cargo test --quiet --offline
CARGO_TARGET_DIR=$target/package-test cargo test --quiet --offline --no-default-features
# The workspace's own tests have all features.
CARGO_TARGET_DIR=$target/package-test cargo check --quiet --offline --all-features --all-targets
if [ -n "${BBRLAB_MSRV_CARGO:-}" ]; then
    CARGO_TARGET_DIR=$target/package-msrv "$BBRLAB_MSRV_CARGO" test --quiet --offline
    echo "package: built and tested with $("$BBRLAB_MSRV_CARGO" --version) too"
fi
echo "package: bbrlab-core $version passes its tests outside the workspace"
