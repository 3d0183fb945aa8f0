#!/bin/sh
# Renders the sample report and tests it in headless Chromium. Usage: tests/report/run.sh [DIR for page and screenshots]
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -eu
cd "$(dirname "$0")/../.."
out=${1:-out/report-test}
mkdir -p "$out"
cargo run --quiet -p bbrlab-report --example report_sample > "$out/sample.html"
exec python3 tests/report/browser_test.py "$out/sample.html" --shots "$out"
