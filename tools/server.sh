#!/bin/bash
# Runs README's "On your server" as it is written, on this kernel: BBRv3 is loaded, a web server's transfer uses it, it is unloaded
# during another transfer, and nothing is left. Uses its own mount and network namespaces; the host's are not changed.
# usage: tools/server.sh      as root; $BBRLAB is the command (target/release/bbrlab). Uses nginx if available, else Python's server.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
BBRLAB=$(realpath "${BBRLAB:-target/release/bbrlab}")
export BBRLAB

if [ "${1-}" != inside ]; then
    exec unshare -mn --propagation private "$0" inside
fi

fail() { echo "server: $*" >&2; exit 1; }
# Other processes may have programs of their own in the kernel: only this name identifies ours.
is_registered() { grep -qw bbr3_linux /proc/sys/net/ipv4/tcp_available_congestion_control; }

mount -t tmpfs none /run
scratch=$(mktemp -d)
children=()
# shellcheck disable=SC2154 # child is the loop's
trap 'for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done; "$BBRLAB" host unload bbr3_linux >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
! is_registered || fail "bbr3_linux is registered already"
default=$(cat /proc/sys/net/ipv4/tcp_congestion_control) mounted=$(mountpoint /sys/fs/bpf || true)

# The client has a namespace of its own.
ip link set lo up
unshare -n sleep 600 & client=$!
children+=("$client")
until [ "$(readlink "/proc/$client/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep .05; done
ip link add server type veth peer name client netns "$client"
ip addr add 10.8.8.1/24 dev server
ip link set server up
nsenter -t "$client" -n ip addr add 10.8.8.2/24 dev client
nsenter -t "$client" -n ip link set client up

"$BBRLAB" host load bbr3-linux --default
[ "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" = bbr3_linux ] || fail "bbr3_linux is not the default"

mkdir "$scratch/www"
head -c 64M /dev/urandom > "$scratch/www/file"
sum=$(sha256sum < "$scratch/www/file")
if command -v nginx > /dev/null; then
    printf 'daemon off; pid %s/pid; error_log stderr; events {} http { access_log off; server { listen 8000; root %s/www; } }' \
        "$scratch" "$scratch" > "$scratch/nginx.conf"
    chmod 755 "$scratch"
    nginx -c "$scratch/nginx.conf" & children+=("$!")
else
    python3 -m http.server --directory "$scratch/www" 8000 > /dev/null 2>&1 & children+=("$!")
fi
fetch() { nsenter -t "$client" -n curl -sS "$@" http://10.8.8.1:8000/file; }

for _ in {1..100}; do
    ! nsenter -t "$client" -n curl -s -o /dev/null -r 0-0 http://10.8.8.1:8000/file || break
    sleep .1
done
[ "$(fetch | sha256sum)" = "$sum" ] || fail "the file did not come whole"
begun=$("$BBRLAB" host status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["loaded"][0]["begun"])')
[ "$begun" -gt 1 ] || fail "no connection of the server's began with it: $begun"

# Unloaded during a transfer.
fetch --limit-rate 6M > "$scratch/second" & second=$!
for _ in {1..50}; do
    shown=$("$BBRLAB" host status --connections)
    ! grep -q ':8000' <<< "$shown" || break
    sleep .1
done
echo "$shown"
grep -q ':8000' <<< "$shown" || fail "status shows no connection of the server's"
"$BBRLAB" host unload bbr3_linux
wait "$second"
[ "$(sha256sum < "$scratch/second")" = "$sum" ] || fail "the transfer did not survive the unloading"

! is_registered || fail "bbr3_linux is still registered"
[ "$(cat /proc/sys/net/ipv4/tcp_congestion_control)" = "$default" ] || fail "the default is not what it was"
[ ! -e /sys/fs/bpf/bbrlab ] || fail "pins are left"
[ "$(mountpoint /sys/fs/bpf || true)" = "$mounted" ] || fail "/sys/fs/bpf is not as it was: $(mountpoint /sys/fs/bpf)"
[ -z "$(ls /run/bbrlab 2>/dev/null | grep -v lock || true)" ] || fail "the journal holds $(ls /run/bbrlab)"
echo "server: loaded, used by $begun connections, taken back under a transfer, nothing left"
