#!/bin/bash
# Runs both commands of the README on minimal Debian systems, each in a chroot with only git, make and certificates: as root,
# and once without root, where each missing tool must be named.
# usage: tools/fresh.sh SUITE…      e.g. bookworm trixie; as root. Logs go to out/fresh/SUITE.log
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '4s/^# //p' "$0" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "fresh: chroots need root" >&2; exit 2; }
mkdir -p out/fresh
logs=$PWD/out/fresh
commit=$(git rev-parse HEAD)
git diff --quiet HEAD || echo "fresh: uncommitted changes are left out"

# inside ROOT COMMAND: runs COMMAND in the chroot, in mount and PID namespaces that end with it.
inside() {
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        root=$1; shift
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t sysfs -o ro sys "$root/sys"
        exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "$*"
    ' inside "$@"
}

try() {
    local suite=$1 root status=0
    root=$(mktemp -d)
    trap 'rm -rf --one-file-system "$root"' RETURN
    echo "== $suite: a minimal system"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,make,git "$suite" "$root" || return
    # The name server and the certificates of this machine: a proxy may have its own.
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    git clone --quiet . "$root/root/bbrlab" && git -C "$root/root/bbrlab" checkout --quiet "$commit" || return
    local command begin
    chmod 755 "$root/root"
    echo "== $suite: without root, what is missing is named"
    inside "$root" 'cd /root/bbrlab && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp tools/setup.sh run lint docs; [ $? -eq 1 ]' || status=1
    for command in "make run" "make test"; do
        begin=$SECONDS
        echo "== $suite: $command"
        if inside "$root" "cd /root/bbrlab && $command" </dev/null; then
            echo "== $suite: $command passed in $((SECONDS - begin)) s"
        else
            echo "== $suite: $command FAILED"
            status=1
        fi
    done
    return $status
}

passed=0 failed=0
for suite in "$@"; do
    if try "$suite" > >(tee "$logs/$suite.log" | grep --line-buffered -a -e '^== ' -e '^setup: ' -e ' passed, ') 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done
sleep 1
echo "$passed passed, $failed failed; logs in out/fresh"
[ $failed -eq 0 ]
