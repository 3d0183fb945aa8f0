#!/bin/bash
# Builds the loader for aarch64, and loads every algorithm in Debian's own aarch64 kernels under QEMU: verified, a transfer, unloaded.
# usage: tools/kernels/aarch64.sh [SERIES…]      as in 6.1; without any: 6.1 6.12 newest
# Needs aarch64-linux-gnu-gcc, qemu-system-aarch64 and Rust's aarch64-unknown-linux-gnu: make kernels-aarch64 installs them.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/../.."
for word; do
    case $word in
        newest | [1-9].[0-9] | [1-9].[0-9][0-9]) ;;
        *) echo "kernels: $word: write newest or a series, as in 6.12" >&2; exit 2 ;;
    esac
done
export architecture=arm64
# shellcheck source=tools/kernels/packages.sh
. tools/kernels/packages.sh
out=$PWD/out/kernels
mkdir -p "$out"
apt_lists || exit 0
available=$(packages)
[ -n "$available" ] || { echo "kernels: skipped, Debian's package lists cannot be had"; exit 0; }

# Libraries to link with and to run with, of the oldest suite whose C library the cross compiler's can rely on.
sysroot=$cache/sysroot
if [ ! -d "$sysroot" ]; then
    work=$(mktemp -d "$cache/new.XXXXXX")
    (
        cd "$work"
        for package in busybox-static libelf1 libelf-dev zlib1g zlib1g-dev libzstd1 libc6 libgcc-s1; do
            version=$(apt_private apt-cache madison "$package" | awk '/ bookworm\// { print $3; exit }')
            apt_private apt-get -qq download "$package=$version" >&2
        done
        mkdir root
        for file in *.deb; do dpkg -x "$file" root; done
    )
    mv "$work/root" "$sysroot"
    rm -rf "$work"
fi
libraries=$sysroot/usr/lib/aarch64-linux-gnu
CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CFLAGS_aarch64_unknown_linux_gnu="-I$sysroot/usr/include -I$sysroot/usr/include/aarch64-linux-gnu" \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$sysroot \
    PKG_CONFIG_LIBDIR=$libraries/pkgconfig \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-L $libraries -L $sysroot/lib/aarch64-linux-gnu" \
    cargo build --quiet --locked -p bbrlab --no-default-features --features host --target aarch64-unknown-linux-gnu

image=$(mktemp -d)
trap 'rm -rf "$image"' EXIT
mkdir -p "$image"/files/{bin,proc,sys,dev,tmp,run,lib}
cp "$sysroot/bin/busybox" "$image/files/bin/"
cp "${CARGO_TARGET_DIR:-target}/aarch64-unknown-linux-gnu/debug/bbrlab" "$image/files/bin/"
aarch64-linux-gnu-strip "$image/files/bin/bbrlab"
for library in "$sysroot"/lib/aarch64-linux-gnu/{ld-linux-aarch64.so.1,libc.so.6,libm.so.6,libgcc_s.so.1,libz.so.1} "$libraries"/{libelf.so.1,libzstd.so.1}; do
    cp -L "$library" "$image/files/lib/"
done
cat > "$image/files/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /run; mount -t tmpfs none /tmp
ip link set lo up
uname -srm
bbrlab doctor | grep -E 'load|ab:|watch'
for algorithm in bbr1 bbr2 bbr3 bbr3-linux bbr-lab bbr-cpa acd-linux bbr-s davis cubic reno dctcp; do
    name=$(echo $algorithm | tr - _)
    case $algorithm in cubic | reno | dctcp) name=bbrlab_$algorithm ;; esac
    if bbrlab host load $algorithm && bbrlab host status | grep begun && bbrlab host unload $name &&
        ! grep -qw $name /proc/sys/net/ipv4/tcp_available_congestion_control && [ ! -e /sys/fs/bpf/bbrlab ]; then
        echo "ok: $algorithm"
    else
        echo "FAILED: $algorithm"
    fi
done
echo "end of tests"
poweroff -f
END
chmod +x "$image/files/init"
(cd "$image/files" && find . | cpio -o -H newc --quiet) > "$image/all.cpio"

status=0
[ $# -gt 0 ] || set -- 6.1 6.12 newest
for series; do
    [ "$series" != newest ] || series=$(tail -n 1 <<< "$available" | cut -d ' ' -f 1)
    package=$(awk -v series="$series" '$1 == series { print $2 }' <<< "$available")
    [ -n "$package" ] || { echo "$series: skipped, Debian serves no such kernel"; continue; }
    root=$(kernel_of "$package") || { echo "$series: skipped, $package cannot be had"; continue; }
    kernel=$(find "$root" -name 'vmlinuz*' | head -n 1)
    log=$out/aarch64-$series.log
    timeout 900 qemu-system-aarch64 -machine virt -cpu max -accel tcg,thread=multi -smp 1 -m 1024 -nodefaults -no-user-config -display none \
        -serial stdio -monitor none -no-reboot -kernel "$kernel" -initrd "$image/all.cpio" -append "console=ttyAMA0 quiet panic=-1" \
        < /dev/null > "$log" 2>&1 || true
    passed=$(grep -c '^ok: ' "$log" || true)
    echo "aarch64 $series: $(sed -n 's/\r$//; s/^Linux //p' "$log" | head -n 1), $passed of 10 loaded, carried a transfer and unloaded"
    [ "$passed" -eq 10 ] || { status=1; grep FAILED -B3 "$log" || tail -n 5 "$log"; }
done
exit $status
