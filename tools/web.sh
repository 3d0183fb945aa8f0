#!/bin/bash
# Builds the playground into out/web: the simulator as WebAssembly, then the page around it.
# usage: tools/web.sh [test|site]     `test`: the module beside the command, and the page in a browser; `site`: out/site
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
module=$target/wasm32-unknown-unknown/web/bbrlab_web.wasm

cargo build --quiet --locked -p bbrlab-web --profile web --target wasm32-unknown-unknown
[ web/node_modules/.package-lock.json -nt web/package-lock.json ] || npm ci --prefix web --no-audit --no-fund --loglevel=error
(cd web && node_modules/.bin/tsc -p .)
node web/build.mjs "$module" out/web
case ${1:-} in
    test)
        node web/equal.mjs "$module" "${BBRLAB:-$target/debug/bbrlab}"
        python3 tests/web/browser_test.py --shots out/web-test
        ;;
    site) node web/site.mjs out/web out/site ;;
esac
