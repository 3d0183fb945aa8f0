#!/bin/bash
# The gains of a fleet's test, made from a model, on two processes of Spark: those of `bbrlab ab report` to nine digits.
# usage: tools/ab.sh spark [CONNECTIONS [HOSTS]]        (400,000 on 4 hosts); needs Java 17, and installs pyspark in a folder of its own
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
connections=${1-400000} hosts=${2-4}
command -v java >/dev/null || { echo "spark: no Java; install openjdk-17-jre-headless" >&2; exit 2; }
scratch=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.0.1
cargo run --quiet --locked --release -p bbrlab-study --features parquet --example fleet -- "$scratch/fleet" "$connections" "$hosts"
"$BBRLAB" ab report "$scratch"/fleet/* --json "$scratch/report.json" >/dev/null
SPARK_HOME=$(dirname "$("$scratch/venv/bin/python" -c "import pyspark; print(pyspark.__file__)")")
export SPARK_HOME PYSPARK_PYTHON=$scratch/venv/bin/python
"$PYSPARK_PYTHON" contrib/ab-spark.py --master "local-cluster[2,1,1024]" "$scratch"/fleet/* >"$scratch/spark.json" 2>"$scratch/spark.log" ||
    { tail -n 20 "$scratch/spark.log" >&2; exit 1; }
python3 - "$scratch" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
lines = [one for one in json.loads((folder / "report.json").read_text())["gains"] if one["class"] == "all"]
wanted = {(one["arm"], one["judged_by"] == "throughput"): one["gain"] for one in lines}
found = {(one["arm"], one["is_large"]): one["gain"] for one in json.loads((folder / "spark.json").read_text())}
assert found.keys() == wanted.keys(), (found, wanted)
for key, gain in sorted(found.items()):
    print(f"{key[0]}, {'from' if key[1] else 'below'} 3 MB: {gain:.12f}, by bbrlab ab report {wanted[key]:.12f}")
    assert abs(gain - wanted[key]) < 1e-9
END
