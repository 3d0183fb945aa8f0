#!/bin/bash
# A policy from a container, for the connections of a pod: `bbrlab host load` and `host policy` run in containers that have the rights and
# the volumes of the DaemonSet in docs/roll-out.md, and another cgroup stands for the pod. Needs root and podman with runc; no registry.
# usage: tools/ab.sh containers      $BBRLAB is the command
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
BBRLAB=$(realpath "${BBRLAB:-target/release/bbrlab}")
if [ "${1-}" != inside ]; then
    for program in podman runc; do
        command -v $program > /dev/null || { echo "containers: no $program; on Debian: apt-get install podman runc"; exit 2; }
    done
    BBRLAB=$BBRLAB exec unshare -m --propagation private "$0" inside
fi

fail() { echo "containers: $*" >&2; exit 1; }
scratch=$(mktemp -d) image=localhost/bbrlab-try-$$
root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
pod=bbrlab-pod-$$
podman() { command podman --root "$scratch/images" --runroot "$scratch/run" --storage-driver vfs --runtime "$(command -v runc)" "$@"; }
trap 'rmdir "$root/$pod" 2>/dev/null || true; podman rmi -f "$image" > /dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
mkdir -p /run/bbrlab "$root/$pod" "$scratch"/{policy,image/usr/local/bin,image/etc,image/tmp,image/proc,image/sys,image/dev,image/run}
mount -t tmpfs -o mode=755 none /run/bbrlab
mount -t bpf bpf /sys/fs/bpf

# An image of the command and the libraries that it is linked with.
cp "$BBRLAB" "$scratch/image/usr/local/bin/bbrlab"
ldd "$BBRLAB" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p; s/^\s*(\/[^ ]+) \(.*/\1/p' | while read -r library; do
    mkdir -p "$scratch/image/$(dirname "$library")"
    cp -L "$library" "$scratch/image/$library"
done
tar -C "$scratch/image" -c . | podman import -q - "$image" > /dev/null

unprivileged=(run --rm --network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
privileged=("${unprivileged[@]}" --cap-add BPF --cap-add NET_ADMIN --cap-add PERFMON --cap-add SYS_ADMIN
    -v /sys/fs/bpf:/sys/fs/bpf -v /run/bbrlab:/run/bbrlab -v "$root:$root" -v "$scratch/policy:/policy")
host() { podman "${privileged[@]}" "$image" bbrlab host "$@"; }
# used CGROUP: the congestion control of a connection that a service in this cgroup accepts.
used() {
    bash -c 'echo $$ > "$0/cgroup.procs"; exec python3 -c "
import socket
here = socket.create_server((\"127.0.0.1\", 0))
peer = socket.create_connection(here.getsockname())
print(here.accept()[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b\"\0\").decode())"' "$1"
}
default=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
ip link set lo up

! podman "${unprivileged[@]}" "$image" bbrlab host load bbr3-linux 2> "$scratch/refused" || fail "a container without rights could load"
[ "$(wc -l < "$scratch/refused")" -eq 1 ] || fail "a container without rights: $(cat "$scratch/refused")"
host load bbr3-linux
printf '[[rule]]\nname = "pod"\ncgroup = "%s"\nalgorithm = "bbr3-linux"\n' "$pod" > "$scratch/policy/policy.toml"
host policy apply /policy/policy.toml
[ "$(used "$root/$pod")" = bbr3_linux ] || fail "a connection of the pod has not what the rule says"
[ "$(used "$root")" = "$default" ] || fail "a connection of the host has another than the default"
host policy status
host policy remove
host unload bbr3_linux
! grep -qw bbr3_linux /proc/sys/net/ipv4/tcp_available_congestion_control || fail "bbr3_linux is left"
echo "containers: loaded, in force for a pod and removed from containers with the DaemonSet's rights; refused without them"
