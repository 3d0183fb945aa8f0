#!/bin/bash
# Runs README's "Test it on your users" on this kernel, in a cgroup and namespaces of its own: clients behind two links, one with loss.
# usage: tools/ab.sh [CONNECTIONS]             on each link (100); as root; $BBRLAB is the command (target/release/bbrlab)
#        tools/ab.sh production [SECONDS [ALGORITHM [CONTROL]]]  nginx and clients of five classes, beside separate runs and the simulator
#        tools/ab.sh ramp [TESTS [SECONDS]]    the same algorithm in both arms, under a growing load and a growing share
#        tools/ab.sh faults [TRIALS]           kills, full disks, removed cgroups and other programs under load
#        tools/ab.sh policy-faults|policy-load a policy under faults; 10,000 connections a second with half a million networks
#        tools/ab.sh containers                a policy from a container, for the connections of a pod; needs podman and runc
#        tools/ab.sh cost [SECONDS]            cost of the program by hook; 10,000 connections a second
#        tools/ab.sh fleet|spark [CONNECTIONS …] the report of a fleet's test, made from a model; the same on Spark; not as root
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
BBRLAB=$(realpath "${BBRLAB:-target/release/bbrlab}")
export BBRLAB

case ${1-} in
production) exec tools/ab/production.sh "${@:2}" ;;
ramp) exec tools/ab/ramp.sh "${@:2}" ;;
faults) exec unshare -mn --propagation private python3 tools/ab/faults.py "${@:2}" ;;
policy-faults | policy-load) exec unshare -mn --propagation private python3 tools/ab/policy.py "${1#policy-}" "${@:2}" ;;
fleet | spark) exec "tools/ab/$1.sh" "${@:2}" ;;
containers) exec tools/ab/containers.sh ;;
cost) exec unshare -mn --propagation private python3 tools/ab/cost.py "${@:2}" ;;
esac
if [ "${1-}" != inside ]; then
    exec unshare -mn --propagation private "$0" inside "${1-100}"
fi
count=$2

fail() { echo "ab: $*" >&2; exit 1; }
mount -t tmpfs none /run
ip link set lo up
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
cgroup=$root/bbrlab-ab.$$
scratch=$(mktemp -d)
mkdir "$cgroup" "$scratch/www"
trap 'echo $$ > "$root/cgroup.procs"; rmdir "$cgroup"; rm -rf "$scratch"' EXIT
echo $$ > "$cgroup/cgroup.procs"
default=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
head -c 400k /dev/urandom > "$scratch/www/page"
head -c 4M /dev/urandom > "$scratch/www/file"

"$BBRLAB" ab start --arms cubic,bbr3-linux --cgroup "$cgroup" --port 8000 --direction in --out "$scratch/test" & test=$!
until [ -e "$scratch/test/experiment.json" ]; do kill -0 $test || fail "the test did not begin"; sleep .1; done
sleep .5
"$BBRLAB" ab split 40,60
# One connection after the other, so that arms do not meet in the queue; every fourth fetches a large file.
cat > "$scratch/client" <<'END'
for ((i = 0; i < $1; i++)); do
    file=page; [ $((i % 4)) -ne 3 ] || file=file
    curl -sS -o /dev/null "http://$BBRLAB_SERVER_IP:8000/$file" || exit 1
done
END
links=("--rate 50mbit --rtt 40ms --loss 1%" "--rate 20mbit --rtt 60ms --buffer 2bdp")
clients=()
for link in "${links[@]}"; do
    # shellcheck disable=SC2086 # a link is several words
    "$BBRLAB" emulate $link --server "python3 -m http.server --directory $scratch/www 8000" -- \
        bash "$scratch/client" "$count" > /dev/null 2> "$scratch/emulate.$$" & clients+=("$!")
done
for client in "${clients[@]}"; do wait "$client" || { cat "$scratch/emulate.$$" >&2; fail "a client failed"; }; done
"$BBRLAB" ab status
"$BBRLAB" ab stop
wait $test || fail "the test failed"
"$BBRLAB" ab report "$scratch/test" --report "$scratch/test.html" --json "$scratch/test.json"
"$BBRLAB" ab report "$scratch/test"
[ -z "${KEEP-}" ] || cp -r "$scratch"/test* "$KEEP"
python3 - "$scratch/test.json" "$((2 * count))" <<'END'
import json, sys
found = json.load(open(sys.argv[1]))
assert found["connections"] == int(sys.argv[2]), found["connections"]
assert not found["sample_ratio"]["is_mismatch"] and found["counts"]["ring_lost"] == 0, found
assert all(arm["refused"] == arm["overridden"] == 0 and arm["retransmit_ratio"] > 0 for arm in found["arms"]), found["arms"]
END
"$BBRLAB" ab report "$scratch/test" --policy "$scratch/found.toml" > /dev/null
"$BBRLAB" host policy apply "$scratch/found.toml" --dry-run
cat > "$scratch/policy.toml" <<END
default = "cubic"
[[rule]]
name = "web"
ports = [8000]
algorithm = "bbr3-linux"
END
"$BBRLAB" host policy apply "$scratch/policy.toml" --cgroup "${cgroup#"$root"/}"
# shellcheck disable=SC2086 # a link is several words
"$BBRLAB" emulate ${links[0]} --server "python3 -m http.server --directory $scratch/www 8000" -- \
    bash "$scratch/client" 4 > /dev/null 2> "$scratch/emulate.$$" || { cat "$scratch/emulate.$$" >&2; fail "a client failed under the policy"; }
"$BBRLAB" host policy status
"$BBRLAB" host policy status --json | python3 -c '
import json, sys
first = json.load(sys.stdin)["rules"][0]
assert first["taken"] == first["set"] == 4 and not first["refused"], first'
"$BBRLAB" host policy remove
[ "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" = "$default" ] || fail "the default is another than before"
! grep -qw bbr3_linux /proc/sys/net/ipv4/tcp_available_congestion_control || fail "bbr3_linux is still registered"
echo "ab: $((2 * count)) connections, each with its arm and its record; nothing is left"
