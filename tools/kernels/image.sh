#!/bin/bash
# Makes the parts of an initramfs: this machine's programs with bbrlab and its tests, or the modules of a kernel package. Several parts
# one after the other are one initramfs.
# usage: image.sh programs OUT.cpio            env: BBRLAB, DIFFERENTIAL, HOST_TESTS
#        image.sh modules OUT.cpio ROOT        ROOT: the directory to which the packages were unpacked
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
part=$1 out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# put FILE PATH: a program at PATH, with the libraries that it is linked with.
put() {
    local library
    mkdir -p "$work/$(dirname "$2")"
    cp -L "$1" "$work/$2"
    { ldd "$1" 2>/dev/null || true; } | sed -nE 's/.* => (\/[^ ]+) .*/\1/p; s/^\s*(\/[^ ]+) \(.*/\1/p' | while read -r library; do
        [ -e "$work/$library" ] || { mkdir -p "$work/$(dirname "$library")"; cp -L "$library" "$work/$library"; }
    done
}

programs() {
    local program applet python version library
    mkdir -p "$work"/{bin,sbin,usr/bin,usr/sbin,etc,proc,sys,dev,tmp,run,root,tests/tools}
    for program in bash head ip tc ss iperf3 curl unshare nsenter mount umount mountpoint setpriv kmod busybox; do
        put "$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v "$program")" "/usr/bin/$program"
    done
    # busybox's for everything else.
    for applet in $(busybox --list); do
        [ -e "$work/usr/bin/$applet" ] || ln -s busybox "$work/usr/bin/$applet"
    done
    for applet in modprobe insmod lsmod depmod; do ln -sf kmod "$work/usr/bin/$applet"; done
    ln -s /usr/bin/bash "$work/bin/bash"
    ln -s /usr/bin/bash "$work/bin/sh"
    # The distribution's Python: its paths are fixed.
    python=$(readlink -f /usr/bin/python3)
    version=$(basename "$python")
    put "$python" "$python"
    ln -sf "$python" "$work/usr/bin/python3"
    mkdir -p "$work/usr/lib"
    tar -C /usr/lib --exclude=test --exclude=__pycache__ --exclude=idlelib --exclude=tkinter --exclude=ensurepip --exclude=lib2to3 \
        --exclude='config-*' --exclude=pydoc_data --exclude=unittest -cf - "$version" | tar -C "$work/usr/lib" -xf -
    for library in "/usr/lib/$version/lib-dynload"/*.so; do put "$library" "$library"; done
    printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' > "$work/etc/passwd"
    echo 'root:x:0:' > "$work/etc/group"
    echo '127.0.0.1 localhost' > "$work/etc/hosts"
    for program in "BBRLAB /usr/bin/bbrlab" "DIFFERENTIAL /tests/differential" "HOST_TESTS /tests/host"; do
        name=${program% *}
        [ -n "${!name}" ] || continue
        put "${!name}" "${program#* }"
        strip "$work/${program#* }"
    done
    cp "$here"/guest.sh "$work/tests/"
    cp "$here"/../server.sh "$here"/../runbook.py "$work/tests/tools/"
    mkdir "$work/tests/docs"
    cp "$here"/../../docs/roll-out.md "$work/tests/docs/"
    cp "$here"/init "$work/init"
    chmod +x "$work/init"
    # The folder of a user who has no rights must not be closed to it.
    chmod 755 "$work"
}

# The modules that the tests need, unpacked where the package packs them.
modules() {
    local from release to module
    from=$(find "$1" -path '*lib/modules/*' -prune | head -n 1)
    release=$(basename "$from")
    to=$work/lib/modules/$release
    mkdir -p "$to"
    cp "$from"/modules.{order,builtin,builtin.modinfo} "$to/" 2>/dev/null || true
    (cd "$from" && find kernel -name '*.ko*' | grep -E '/(tcp_[a-z]+|sch_[a-z_]+|veth|tun|dummy|inet_diag|cls_bpf|ifb|crc32c.*|libcrc32c)\.ko') |
        while read -r module; do
            mkdir -p "$to/$(dirname "$module")"
            case $module in
                *.xz) xz -dc "$from/$module" > "$to/${module%.xz}" ;;
                *.zst) zstd -qdc "$from/$module" > "$to/${module%.zst}" ;;
                *) cp "$from/$module" "$to/$module" ;;
            esac
        done
    # A package may lack the lists of what is built in; these modules need none of that.
    depmod -b "$work" "$release" 2>/dev/null
}

case $part in
    programs) programs ;;
    modules) modules "$3" ;;
esac
(cd "$work" && find . | cpio -o -H newc --quiet) > "$out"
