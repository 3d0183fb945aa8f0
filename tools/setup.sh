#!/bin/bash
# Installs what the named steps need where it may (apt as root or with passwordless sudo; rustup), else names it.
# usage: tools/setup.sh STEP…      `run` or a step of the Makefile. Exit 1 if something is missing, with one line for each.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail

# The oldest compiler that builds this: rust-version in Cargo.toml.
rust_min=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
# Before the distribution's, which need_targets installs for other targets alone.
export PATH="$HOME/.cargo/bin:$PATH"
export DEBIAN_FRONTEND=noninteractive
missing=0
updated=

say() { echo "setup: $*" >&2; }

lack() {
    say "$*"
    missing=1
}

# Runs a command with the right to install, or fails.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null && sudo -n env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" "$@"
    fi
}

may_install() { command -v apt-get >/dev/null && as_root true 2>/dev/null; }

# The package lists of a fresh machine are old or absent, so a failure is tried once more with new ones.
apt_install() {
    may_install || return 1
    say "installing $1"
    as_root apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1 && return 0
    [ -z "$updated" ] || return 1
    updated=yes
    as_root apt-get update -qq >/dev/null 2>&1
    as_root apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

# need PROGRAM PACKAGE
need() {
    command -v "$1" >/dev/null && return
    apt_install "$2" && command -v "$1" >/dev/null && return
    lack "no $1 in PATH; on Debian: apt-get install $2"
}

need_rust() {
    # Where the distribution packs rustup, that is a way to a compiler that is new enough.
    if ! command -v cargo >/dev/null && apt_install rustup; then
        rustup toolchain install stable --profile minimal
    fi
    local have
    have=$(rustc --version 2>/dev/null | cut -d ' ' -f 2)
    if [ -z "$have" ]; then
        lack "no rustc in PATH; install Rust $rust_min or later from https://rustup.rs"
    elif [ "$(printf '%s\n' "$rust_min" "${have%%-*}" | sort -V | head -n 1)" != "$rust_min" ]; then
        lack "rustc is $have, this needs $rust_min or later; with rustup: rustup update stable"
    fi
}

# need_component PROGRAM COMPONENT
need_component() {
    "$1" --version >/dev/null 2>&1 && return
    if command -v rustup >/dev/null && rustup component add "$2"; then
        return
    fi
    lack "no $1; with rustup: rustup component add $2"
}

# need_target TARGET: our compiler's library for it
need_target() {
    [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$1/lib" ] && return
    if command -v rustup >/dev/null && rustup target add "$1" >/dev/null 2>&1; then
        return
    fi
    lack "no Rust library for $1; with rustup: rustup target add $1"
}

# The distribution's compiler and what it brings of core, in the named packages; it is called by its path.
need_rust_web() {
    local root package
    for package in "$@"; do
        root=$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib
        case $package in
            rustc-web) [ -x /usr/bin/rustc ] ;;
            *-bpf) [ -d "$root/bpfel-unknown-none/lib" ] ;;
            *) [ -e "$root/src/rust/library/core/src/lib.rs" ] ;;
        esac || apt_install "$package" || lack "no $package; on Debian: apt-get install $package"
    done
    local have
    have=$(/usr/bin/rustc --version 2>/dev/null | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$rust_min" "$have" | sort -V | head -n 1)" = "$rust_min" ] ||
        lack "/usr/bin/rustc is ${have:-missing}, this needs $rust_min or later; on Debian: apt-get install rustc-web"
}

# Core for BPF, and its source for the browser.
need_targets() {
    need python3 python3
    need_target wasm32-unknown-unknown
    need_rust_web rustc-web libstd-rust-web-dev-bpf rust-web-src
}

# What builds the BPF objects: clang and LLVM of the version that the compiler is built with, for IR moves between versions.
need_bpf() {
    need make make
    need_rust_web rustc-web libstd-rust-web-dev-bpf
    local llvm
    llvm=$(/usr/bin/rustc -vV 2>/dev/null | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    need "clang-${llvm:-22}" "clang-${llvm:-22}"
    need "llvm-link-${llvm:-22}" "llvm-${llvm:-22}"
    # Objects of another compiler are held to native code in the kernel.
    [ "$(make -s -C "$(dirname "$0")/../bpf/cc" versions 2>/dev/null)" = "$(cat "$(dirname "$0")/../bpf/cc/objects/VERSIONS")" ] || need_host
}

# Rights and kernel parts of a recording; they can't be installed.
need_oracle() {
    need make make
    command -v clang clang-{22..14} >/dev/null || need clang clang
    [ -e /usr/include/libelf.h ] || apt_install libelf-dev || lack "no libelf.h; on Debian: apt-get install libelf-dev"
    [ -e /usr/include/zlib.h ] || apt_install zlib1g-dev || lack "no zlib.h; on Debian: apt-get install zlib1g-dev"
    need pkg-config pkg-config
    [ "$(id -u)" -eq 0 ] || lack "recording a kernel's decisions needs root"
    [ -e /sys/kernel/btf/vmlinux ] || lack "this kernel has no BTF (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF"
    grep -q ' bbr_main$' /proc/kallsyms || grep -q ' bbr_main\s' /proc/kallsyms || lack "this kernel has no tcp_bbr; as root: modprobe tcp_bbr"
    [ -e /dev/net/tun ] || lack "no /dev/net/tun; as root: modprobe tun, or give the container --device /dev/net/tun"
}

# Rights and kernel parts of loading our algorithms; the objects are committed.
need_host() {
    need make make
    need ip iproute2
    need unshare util-linux
    need python3 python3
    need curl curl
    [ -e /usr/include/libelf.h ] || apt_install libelf-dev || lack "no libelf.h; on Debian: apt-get install libelf-dev"
    [ -e /usr/include/zlib.h ] || apt_install zlib1g-dev || lack "no zlib.h; on Debian: apt-get install zlib1g-dev"
    need pkg-config pkg-config
    [ "$(id -u)" -eq 0 ] || lack "loading BPF programs needs root"
    [ -e /sys/kernel/btf/vmlinux ] || lack "this kernel has no BTF (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF"
}

# User Mode Linux: a kernel that is kept needs nothing more.
need_uml() {
    need ip iproute2
    "$(dirname "$0")/uml/build.sh" --where >/dev/null && return
    if [ "$(uname -m)" != x86_64 ]; then
        lack "User Mode Linux runs on x86-64, this is $(uname -m)"
        return
    fi
    for pair in make:make flex:flex bison:bison bc:bc xz:xz-utils; do
        need "${pair%%:*}" "${pair##*:}"
    done
    [ -f /usr/src/linux-source-6.12.tar.xz ] || apt_install linux-source-6.12
    [ -f /usr/src/linux-source-6.12.tar.xz ] || lack "no Linux source; on Debian: apt-get install linux-source-6.12"
}

needs_of() {
    case $1 in
        format) need_rust && need_component rustfmt rustfmt ;;
        docs)
            need python3 python3
            need codespell codespell
            ;;
        targets) need_rust && need_targets ;;
        bpf) need_rust && need cc gcc && need_bpf ;;
        *)
            need_rust
            need cc gcc
            ;;
    esac
    case $1 in
        lint) need_component cargo-clippy clippy ;;
        golden)
            need python3 python3
            need qemu-aarch64 qemu-user
            need_target aarch64-unknown-linux-musl
            ;;
        no-std) need objdump binutils ;;
        commands) need python3 python3 ;;
        report)
            need python3 python3
            need chromium chromium
            need chromedriver chromium-driver
            ;;
        instructions)
            need python3 python3
            need valgrind valgrind
            ;;
        oracle) need_oracle ;;
        host) need_host ;;
        quic)
            need cmake cmake
            need cc gcc
            ;;
        uml | uml-tests | agree) need_uml ;;
        fuzz) need c++ g++ ;;
    esac
}

for step in "$@"; do
    needs_of "$step"
done
exit $missing
