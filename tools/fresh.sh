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

root='' child=''
# Ends the command in the chroot, whose mounts end with it, and removes the chroot.
clean() {
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null
    [ -z "$root" ] || rm -rf --one-file-system "$root"
    root='' child=''
}
trap clean EXIT
trap 'exit 1' INT TERM

# inside COMMAND: runs COMMAND in the chroot, in mount and PID namespaces that end with it.
inside() {
    local status=0
    # shellcheck disable=SC2016 # the inner shell expands these
    unshare --mount --pid --fork --kill-child --propagation private bash -c '
        root=$1; shift
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t sysfs -o ro sys "$root/sys"
        exec chroot "$root" env -i HOME=/srv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "cd /srv/bbrlab && $*"
    ' inside "$root" "$@" </dev/null &
    child=$!
    wait "$child" || status=$?
    child=''
    return $status
}

try() {
    local suite=$1 status=0
    root=$(mktemp -d)
    chmod 755 "$root"
    echo "== $suite: a minimal system"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,make,git "$suite" "$root" || return
    # The name server and the certificates of this machine: a proxy may have its own.
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    git clone --quiet . "$root/srv/bbrlab" && git -C "$root/srv/bbrlab" checkout --quiet "$commit" || return
    local command begin
    echo "== $suite: without root, what is missing is named"
    inside 'setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp tools/setup.sh run lint docs; [ $? -eq 1 ]' || status=1
    for command in "make run" "make test"; do
        begin=$SECONDS
        echo "== $suite: $command"
        if inside "$command"; then
            echo "== $suite: $command passed in $((SECONDS - begin)) s"
        else
            echo "== $suite: $command FAILED"
            status=1
        fi
    done
    clean
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
