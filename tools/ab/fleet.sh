#!/bin/bash
# Reports a test of a fleet, made from a model: memory and time of `bbrlab ab report`.
# usage: tools/ab.sh fleet [CONNECTIONS [HOSTS [connection|client-prefix|time]]]     (100,000,000 on 16 hosts; 8 GB of disk)
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
connections=${1-100000000} hosts=${2-16} unit=${3-connection}
scratch=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$scratch"' EXIT
cargo run --quiet --locked --release -p bbrlab-study --features parquet --example fleet -- "$scratch" "$connections" "$hosts" "$unit"
du -sh "$scratch" | cut -f1
python3 - "$BBRLAB" "$scratch" <<'END'
import pathlib, resource, subprocess, sys, time
program, folder = sys.argv[1:]
begun = time.monotonic()
hosts = sorted(pathlib.Path(folder).iterdir())
done = subprocess.run([program, "ab", "report", *hosts], capture_output=True, text=True, check=True)
took, most = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(done.stdout)
print(f"{took:.0f} s, {most / 1e6:.2f} GB")
END
