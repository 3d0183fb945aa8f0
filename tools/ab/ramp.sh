#!/bin/bash
# A/A tests over a ramp, on this kernel: the share of the second arm grows from 1 to 50 % while the load grows from 1 to 48 clients behind
# one link. Both arms are CUBIC, so no line of the report may find a difference, and no guard may stop an arm. Prints a line a test.
# usage: tools/ab.sh ramp [TESTS [SECONDS]]      (5 of 60 s); as root; $BBRLAB is the command
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/../.."
BBRLAB=$(realpath "${BBRLAB:-target/release/bbrlab}")
export BBRLAB

fail() { echo "ab: $*" >&2; exit 1; }
if [ "${1-}" != inside ]; then
    exec unshare -mn --propagation private "$0" inside "${1-5}" "${2-60}"
fi
tests=$2 seconds=$3

mount -t tmpfs none /run
ip link set lo up
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
cgroup=$root/bbrlab-ab.$$
scratch=$(mktemp -d)
mkdir "$cgroup" "$scratch/www"
trap 'echo $$ > "$root/cgroup.procs"; rmdir "$cgroup"; rm -rf "$scratch"' EXIT
echo $$ > "$cgroup/cgroup.procs"
head -c 100k /dev/urandom > "$scratch/www/page"
# Clients join at a constant rate of growth: client n of 48 after log(n) / log(48) of the time.
cat > "$scratch/clients" <<'END'
import math, os, socket, sys, threading, time
seconds, address = float(sys.argv[1]), (os.environ["BBRLAB_SERVER_IP"], 8000)
end = time.monotonic() + seconds
def client(number):
    time.sleep(seconds * math.log(number) / math.log(48))
    while time.monotonic() < end:
        with socket.create_connection(address, 30) as one:
            one.sendall(b"GET /page HTTP/1.0\r\n\r\n")
            while one.recv(1 << 16): pass
threads = [threading.Thread(target=client, args=(number,)) for number in range(1, 49)]
for one in threads: one.start()
for one in threads: one.join()
END

for ((nth = 1; nth <= tests; nth++)); do
    out=$scratch/$nth
    "$BBRLAB" ab start --arms cubic,cubic --canary 1% --cgroup "$cgroup" --port 8000 --direction in --out "$out" > "$scratch/said" 2>&1 & test=$!
    until grep -q "records in" "$scratch/said"; do kill -0 $test || fail "the test did not begin: $(cat "$scratch/said")"; sleep .1; done
    "$BBRLAB" emulate --rate 50mbit --rtt 20ms --buffer 4bdp --server "python3 -m http.server --directory $scratch/www 8000" -- \
        python3 "$scratch/clients" "$seconds" > "$scratch/load" 2>&1 & load=$!
    sleep $((seconds / 2))
    "$BBRLAB" ab split 50,50 > /dev/null
    wait $load || fail "the load failed: $(tail -n 3 "$scratch/load")"
    "$BBRLAB" ab stop > /dev/null
    wait $test || fail "the test failed: $(cat "$scratch/said")"
    "$BBRLAB" ab report "$out" --json "$scratch/$nth.json" > /dev/null
    [ -z "${KEEP-}" ] || cp -r "$out" "$scratch/$nth.json" "$KEEP"
done

python3 - "$tests" "$scratch" <<'END'
import json, sys
faults = 0
for nth in range(1, int(sys.argv[1]) + 1):
    found = json.load(open(f"{sys.argv[2]}/{nth}.json"))
    test = json.load(open(f"{sys.argv[2]}/{nth}/experiment.json"))
    line = next(line for line in found["gains"] if line["over"] == "all")
    differ = [line["class"] for line in found["gains"] if line["verdict"] in ("faster", "slower")]
    stopped = [change["why"] for change in test["splits"] if "was stopped" in change["why"]]
    excluded = not line["always_low"] <= 0 <= line["always_high"]
    faults += bool(differ) + bool(stopped) + excluded
    print(f"{nth}: {found['connections']} connections, {line['connections']} and {line['control_connections']} compared, "
          f"gain {100 * line['gain']:+.1f} % ({100 * line['gain_low']:+.1f} to {100 * line['gain_high']:+.1f}), "
          f"always valid {100 * line['always_low']:+.1f} to {100 * line['always_high']:+.1f} %"
          + "".join(f"; {what}" for what in (differ and f"differs: {differ}", stopped and f"stopped: {stopped}") if what))
sys.exit(f"ab: {faults} false findings in {sys.argv[1]} tests of the same against the same" if faults > int(sys.argv[1]) // 20 else 0)
END
