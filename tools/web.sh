#!/bin/bash
# Builds the playground into out/web: the simulator as WebAssembly, then the page around it.
# usage: tools/web.sh [test [--strict] | site]     `test`: the module beside the command, and the page in browsers; `site`: out/site
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p out
target=${CARGO_TARGET_DIR:-target}
module=$target/wasm32-unknown-unknown/web/bbrlab_web.wasm

cargo build --quiet --locked -p bbrlab-web --profile web --target wasm32-unknown-unknown
[ web/node_modules/.package-lock.json -nt web/package-lock.json ] || npm ci --prefix web --no-audit --no-fund --loglevel=error
(cd web && node_modules/.bin/tsc -p .)
# The packages of `make test`, so that nothing is built twice.
cargo build --quiet --locked --workspace --exclude bbrlab-py --example playground_cases
"$target/debug/examples/playground_cases" >out/cases.json
node web/build.mjs "$module" out/cases.json out/web
case ${1:-} in
    test)
        export BBRLAB=${BBRLAB:-$target/debug/bbrlab}
        node web/equal.mjs "$module" "$BBRLAB" "${@:2}" &
        equal=$!
        # `--strict` compares times.
        [ $# -eq 1 ] || wait $equal
        status=0
        python3 tests/web/browser_test.py --shots out/web-test "${@:2}" || status=1
        wait $equal || status=1
        exit $status
        ;;
    site)
        tools/python.sh site
        # The pages of other packages are not ours: `--no-deps`.
        cargo doc --quiet --locked --no-deps -p bbrlab-core -p bbrlab-sim
        node web/site.mjs out/web out/report.html "$target/doc" out/python out/site
        ;;
esac
