#!/bin/bash
# Builds the User Mode Linux for `--on uml` from Debian's kernel source, and prints its path.
# Kept outside the repo, by version and by all inputs of the build; built once, afterwards only looked up.
# usage: tools/uml/build.sh [--newer] [--where]
#   --newer   the newest kernel that Debian's backports have, for dualpi2 and accurate ECN; downloads its source, 160 MB
#   --where   print the path, exit 1 if nothing is there yet
# env: UML_HZ (250) clock ticks a second; BBRLAB_UML_CACHE the directory that keeps kernels
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hz=${UML_HZ:-250}
cache=${BBRLAB_UML_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bbrlab/uml}
series=6.12
newer='' where=''

fail() {
    echo "uml: $*" >&2
    exit 1
}

for word; do
    case $word in
        --newer) newer=yes ;;
        --where) where=yes ;;
        *) fail "$word: write --newer or --where" ;;
    esac
done
case $hz in '' | *[!0-9]*) fail "UML_HZ: $hz: write a number of ticks a second, as in 250" ;; esac
key=$(cat "$here/config" "$here/config.newer" "$here/random.patch" "$here/build.sh" | sha256sum | cut -c 1-12)
found() {
    find "$cache" -maxdepth 1 -type f -name "linux-*-hz$hz-$key" 2>/dev/null | sort -V |
        if [ -n "$newer" ]; then grep -v "/linux-${series}[.-]"; else grep "/linux-${series}[.-]"; fi | tail -n 1 || true
}

kernel=$(found)
if [ -n "$kernel" ]; then
    echo "$kernel"
    exit 0
fi
[ -z "$where" ] || exit 1
[ "$(uname -m)" = x86_64 ] || fail "User Mode Linux runs on x86-64, this is $(uname -m)"
for tool in make gcc flex bison bc xz patch; do
    command -v $tool >/dev/null || fail "no $tool in PATH; on Debian: apt-get install $tool"
done

mkdir -p "$cache"
# One builder at a time: a second one waits and finds the kernel.
exec 9>"$cache/.lock"
flock 9
kernel=$(found)
if [ -n "$kernel" ]; then
    echo "$kernel"
    exit 0
fi
work=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
log=$work/log
quietly() { "$@" >>"$log" 2>&1 || {
    { grep -nE "error|Error|undefined" "$log" | head -n 10; tail -n 5 "$log"; } >&2
    fail "$1 failed"
}; }

if [ -n "$newer" ]; then
    # Debian's stable release has no such source: it comes from the backports, whose lists are kept apart from this machine's own.
    package=$("$here/newer.sh" "$work") || fail "Debian's backports have no source of a newer kernel"
    series=${package#linux-source-}
    version=$(dpkg-deb -f "$work/$package.deb" Version)
    dpkg-deb -x "$work/$package.deb" "$work"
    source=$work/usr/src/$package.tar.xz
else
    source=/usr/src/linux-source-$series.tar.xz
    [ -f "$source" ] || fail "no $source; on Debian: apt-get install linux-source-$series"
    version=$(dpkg-query -W -f '${Version}' "linux-source-$series" 2>/dev/null || echo "$series")
fi
echo "uml: unpacking ${source##*/}" >&2
mkdir "$work/linux"
tar xf "$source" -C "$work/linux" --strip-components=1
cd "$work/linux"
# User Mode Linux has no menu entry for the tick.
sed -i "/^config HZ\$/,/default/s/default 100/default $hz/" arch/um/Kconfig
# CPUs with tiles have 11 kB of vector state; this many longs are enough. Later kernels ask the CPU.
sed -i 's/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 12288/' arch/x86/um/user-offsets.c
# Reading the clock costs its resolution, 256 ns; with 1 ns packets are comparable to the microsecond.
sed -i 's/define TIMER_MULTIPLIER 256/define TIMER_MULTIPLIER 1/' arch/um/include/linux/time-internal.h
# Seeds the random numbers from `seed=`, so that a run produces the same bytes each time.
quietly patch -p1 -i "$here/random.patch"
# From 6.19 on the key comes first and the result last.
if grep -q 'blake2s(const u8 \*key' include/crypto/blake2s.h; then
    sed -i 's/blake2s(buf, (u8 \*)&fixed_keys, NULL, i, sizeof(fixed_keys), 0)/blake2s(NULL, 0, (u8 *)\&fixed_keys, sizeof(fixed_keys), buf, i)/' \
        drivers/char/random.c
fi
cat "$here/config" > "$work/config"
[ -z "$newer" ] || cat "$here/config.newer" >> "$work/config"
# From 7.3 on CONFIG_SYSCTL alone.
! grep -q '^config PROC_SYSCTL' fs/proc/Kconfig || echo CONFIG_PROC_SYSCTL=y >> "$work/config"
echo "uml: configuring ($(grep -c '^CONFIG' "$work/config") options, HZ $hz)" >&2
quietly make ARCH=um KCONFIG_ALLCONFIG="$work/config" allnoconfig
# Options unknown to this source, or with unmet dependencies, would be dropped silently.
grep '^CONFIG' "$work/config" | while read -r option; do
    grep -qxF "$option" .config || fail "the kernel did not take $option"
done
begin=$SECONDS
echo "uml: building with $(nproc) jobs" >&2
quietly make ARCH=um -j"$(nproc)" linux
strip -o "$cache/.new.$$" linux
kernel=$cache/linux-$version-hz$hz-$key
mv "$cache/.new.$$" "$kernel"
echo "uml: built in $((SECONDS - begin)) s" >&2
echo "$kernel"
