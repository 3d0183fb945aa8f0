#!/bin/bash
# Installs the requirements of the named steps: with apt, as root or by passwordless sudo. Otherwise each missing tool is named in one
# line, with the command that installs it.
# usage: tools/setup.sh STEP…      `run`, `web` or a step of the Makefile. Exit 1 if something is missing.
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -uo pipefail
cd "$(dirname "$0")/.."

# rustup's compiler takes precedence over the distribution's, which `make targets` installs for other targets only.
export PATH="$HOME/.cargo/bin:$PATH"
export DEBIAN_FRONTEND=noninteractive
# The oldest compiler that builds the workspace.
rust_min=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
missing=0
lists_updated=

# Packages that contain a program, by package manager; `-`: none. Several packages are joined by commas.
packages='
program          apt                              dnf                    pacman          apk                        brew
rust             cargo-web,rustc-web              cargo,rustc            rust            cargo                      rust
rustfmt          rustfmt-web                      rustfmt                rust            rustfmt                    rust
cargo-clippy     rust-web-clippy                  clippy                 rust            rust-clippy                rust
cc               gcc,libc6-dev                    gcc                    gcc             build-base                 gcc
c++              g++                              gcc-c++                gcc             build-base                 gcc
make             make                             make                   make            make                       make
python3          python3                          python3                python          python3                    python3
codespell        codespell                        codespell              codespell       py3-codespell              codespell
cmake            cmake                            cmake                  cmake           cmake                      cmake
objdump          binutils                         binutils               binutils        binutils                   binutils
valgrind         valgrind                         valgrind               valgrind        valgrind                   -
qemu-aarch64     qemu-user                        qemu-user              qemu-user       qemu-aarch64               -
clang            clang                            clang                  clang           clang                      llvm
openssl          openssl                          openssl                openssl         openssl                    openssl
chromium         chromium                         chromium               chromium        chromium                   chromium
chromedriver     chromium-driver                  chromedriver           chromium        chromium-chromedriver      chromedriver
pkg-config       pkg-config                       pkgconf-pkg-config     pkgconf         pkgconf                    pkgconf
ip               iproute2                         iproute                iproute2        iproute2                   -
unshare          util-linux                       util-linux             util-linux      util-linux                 -
bpftool          bpftool                          bpftool                bpf             bpftool                    -
curl             curl                             curl                   curl            curl                       curl
aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu,libc6-dev-arm64-cross gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc - -
qemu-system-aarch64 qemu-system-arm              qemu-system-aarch64-core qemu-system-aarch64 qemu-system-aarch64  qemu
qemu-system-x86_64 qemu-system-x86               qemu-system-x86-core   qemu-system-x86 qemu-system-x86_64        qemu
busybox          busybox-static                   busybox                busybox         busybox-static             -
cpio             cpio                             cpio                   cpio            cpio                       cpio
kmod             kmod                             kmod                   kmod            kmod                       -
zstd             zstd                             zstd                   zstd            zstd                       zstd
iperf3           iperf3                           iperf3                 iperf3          iperf3                     iperf3
strip            binutils                         binutils               binutils        binutils                   binutils
flex             flex                             flex                   flex            flex                       flex
bison            bison                            bison                  bison           bison                      bison
bc               bc                               bc                     bc              bc                         bc
xz               xz-utils                         xz                     xz              xz                         xz
mmdebstrap       mmdebstrap                       -                      -               -                          -
buildah          buildah                          buildah                buildah         buildah                    -
podman           podman,uidmap                    podman                 podman          podman                     -
runc             runc                             runc                   runc            runc                       -
go               golang-go                        golang                 go              go                         go
node             nodejs                           nodejs                 nodejs          nodejs                     node
npm              npm                              nodejs-npm             npm             npm                        node
ffmpeg           ffmpeg                           ffmpeg-free            ffmpeg          ffmpeg                     ffmpeg
shellcheck       shellcheck                       ShellCheck             shellcheck      shellcheck                 shellcheck
libelf.h         libelf-dev                       elfutils-libelf-devel  libelf          elfutils-dev               -
zlib.h           zlib1g-dev                       zlib-ng-compat-devel   zlib            zlib-dev                   zlib
'

say() { echo "setup: $*" >&2; }

named=()

# A thing that several steps lack is named once.
lack() {
    local line
    missing=1
    for line in "${named[@]}"; do
        [ "$line" = "$*" ] && return
    done
    named+=("$*")
    say "$*"
}

# Runs a command with the privileges to install packages, or fails.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null && sudo -n env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" "$@"
    fi
}

may_install() { command -v apt-get >/dev/null && as_root true 2>/dev/null; }

# The package manager of this machine, as in the heading of its column above.
package_manager() {
    local name
    for name in apt-get dnf pacman apk brew; do
        command -v $name >/dev/null && echo "${name%-get}" && return
    done
}

# package_of PROGRAM MANAGER: the packages, separated by spaces; nothing if there is none.
package_of() {
    awk -v program="$1" -v manager="$2" '
        $1 == "program" { for (i = 2; i <= NF; i++) if ($i == manager) column = i }
        $1 == program && column && $column != "-" { gsub(",", " ", $column); print $column }' <<<"$packages"
}

# how_to PROGRAM: the command that installs it here.
how_to() {
    local manager names
    manager=$(package_manager)
    names=$(package_of "$1" "$manager")
    if [ -z "$names" ]; then
        echo "install it by hand"
        return
    fi
    case $manager in
        apt) echo "apt-get install $names" ;;
        dnf) echo "dnf install $names" ;;
        pacman) echo "pacman -S $names" ;;
        apk) echo "apk add $names" ;;
        brew) echo "brew install $names" ;;
    esac
}

# apt_install PACKAGE…: the package lists of a fresh machine are old or absent, so a failure is retried once with new ones.
apt_install() {
    may_install || return 1
    say "installing $*"
    local install=(apt-get install -y -qq --no-remove --no-install-recommends "$@")
    as_root "${install[@]}" >/dev/null 2>&1 && return 0
    [ -z "$lists_updated" ] || return 1
    lists_updated=yes
    as_root apt-get update -qq >/dev/null 2>&1
    as_root "${install[@]}" >/dev/null
}

# need PROGRAM
need() {
    command -v "$1" >/dev/null && return
    # shellcheck disable=SC2046 # several packages are several words
    apt_install $(package_of "$1" apt) && command -v "$1" >/dev/null && return
    lack "$1 is missing; $(how_to "$1")"
}

# need_header HEADER
need_header() {
    local header
    for header in /usr/include/"$1" /usr/include/*/"$1" /usr/local/include/"$1"; do
        [ -e "$header" ] && return
    done
    # shellcheck disable=SC2046
    apt_install $(package_of "$1" apt) || lack "$1 is missing; $(how_to "$1")"
}

# A compiler alone cannot link: minimal systems have it without the C library's headers.
need_cc() {
    command -v cc >/dev/null || { need cc; return; }
    echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - 2>/dev/null && return
    # shellcheck disable=SC2046
    apt_install $(package_of cc apt) || lack "cc cannot link a program; $(how_to cc)"
}

# new_enough VERSION: true if it is at least the oldest that builds the workspace
new_enough() { [ -n "$1" ] && [ "$(printf '%s\n' "$rust_min" "${1%%-*}" | sort -V | head -n 1)" = "$rust_min" ]; }

rust_version() { rustc --version 2>/dev/null | cut -d ' ' -f 2; }

# Debian packages a current compiler for its browsers (rustc-web), which builds the workspace; elsewhere rustup provides one.
need_rust() {
    command -v cargo >/dev/null && new_enough "$(rust_version)" && return
    if ! command -v rustup >/dev/null; then
        # shellcheck disable=SC2046
        apt_install $(package_of rust apt) && new_enough "$(rust_version)" && return
        apt_install rustup && rustup toolchain install stable --profile minimal && new_enough "$(rust_version)" && return
    fi
    local version
    version=$(rust_version)
    if command -v rustup >/dev/null; then
        lack "Rust is ${version:-missing}, $rust_min or later is needed; rustup update stable"
    else
        lack "Rust is ${version:-missing}, $rust_min or later is needed; $(how_to rust), or see rustup.rs"
    fi
}

# need_component PROGRAM COMPONENT
need_component() {
    "$1" --version >/dev/null 2>&1 && return
    if [ "$(command -v rustc)" = "$HOME/.cargo/bin/rustc" ]; then
        rustup component add "$2" && return
        lack "$1 is missing; rustup component add $2"
        return
    fi
    need "$1"
}

# need_target TARGET: the standard library of the active compiler
need_target() {
    [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$1/lib" ] && return
    if command -v rustup >/dev/null && rustup target add "$1" >/dev/null 2>&1; then
        return
    fi
    lack "no Rust library for $1; rustup target add $1"
}

# The distribution's compiler, and the components of core in the named packages; it is called by its path.
need_rust_web() {
    local root package
    for package in "$@"; do
        root=$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib
        case $package in
            rustc-web) [ -x /usr/bin/rustc ] ;;
            *-bpf) [ -d "$root/bpfel-unknown-none/lib" ] ;;
            *) [ -e "$root/src/rust/library/core/src/lib.rs" ] ;;
        esac || apt_install "$package" || lack "$package is missing; on Debian: apt-get install $package"
    done
    local version
    version=$(/usr/bin/rustc --version 2>/dev/null | cut -d ' ' -f 2)
    new_enough "$version" ||
        lack "/usr/bin/rustc is ${version:-missing}, $rust_min or later is needed; on Debian: apt-get install rustc-web"
}

# Core for BPF, and its source for the browser.
need_targets() {
    need python3
    need_target wasm32-unknown-unknown
    need_rust_web rustc-web libstd-rust-web-dev-bpf rust-web-src
}

# The BPF objects need clang and LLVM of the compiler's own version, because IR is not portable between versions.
need_bpf() {
    need make
    need_rust_web rustc-web libstd-rust-web-dev-bpf
    local llvm pair
    llvm=$(/usr/bin/rustc -vV 2>/dev/null | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    for pair in "clang-${llvm:-22} clang-${llvm:-22}" "llvm-link-${llvm:-22} llvm-${llvm:-22}"; do
        command -v "${pair% *}" >/dev/null || apt_install "${pair#* }" ||
            lack "${pair% *} is missing; on Debian: apt-get install ${pair#* }"
    done
    # Objects built by another compiler are compared with native code, in the kernel.
    [ "$(make -s -C bpf/cc versions 2>/dev/null)" = "$(cat bpf/cc/objects/VERSIONS)" ] || need_host
}

# Python from 3.10 on, with environments.
need_python() {
    need_component cargo-clippy clippy
    need python3
    # Without it, the test of sweeps over MPI is skipped.
    command -v mpiexec >/dev/null || apt_install openmpi-bin || true
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv || lack "python3 has no venv; on Debian: apt-get install python3-venv"
}

# Headers for libbpf; the compiled objects are in the repository.
need_loader() {
    need make
    need_header libelf.h
    need_header zlib.h
    need pkg-config
}

need_root_and_btf() {
    [ "$(id -u)" -eq 0 ] || lack "$1 needs root"
    [ -e /sys/kernel/btf/vmlinux ] || lack "this kernel has no BTF (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF"
}

# Privileges and kernel features for a recording; they cannot be installed.
need_oracle() {
    need_loader
    command -v clang clang-{22..14} >/dev/null || need clang
    need_root_and_btf "recording a kernel's decisions"
    grep -q ' bbr_main\s' /proc/kallsyms || grep -q ' bbr_main$' /proc/kallsyms || lack "this kernel has no tcp_bbr; as root: modprobe tcp_bbr"
    [ -e /dev/net/tun ] || lack "no /dev/net/tun; as root: modprobe tun, or give the container --device /dev/net/tun"
}

# Privileges and kernel features for loading our algorithms.
need_host() {
    need_loader
    local program
    for program in ip unshare python3 curl bpftool; do
        PATH=$PATH:/usr/sbin:/sbin need $program
    done
    need_root_and_btf "loading BPF programs"
}

# Other kernels run in a virtual machine: no privileges, but programs to put into it.
need_kernels() {
    need_loader
    local program
    for program in qemu-system-x86_64 busybox cpio kmod xz zstd strip python3 ip iperf3 curl unshare setpriv; do
        PATH=/usr/sbin:/usr/bin:/sbin:/bin need $program
    done
}

# actionlint comes from the Go module proxy, in a directory of its own, unless it is installed. 1.7.7 is the last that Debian 12's Go builds.
need_workflows() {
    need shellcheck
    command -v actionlint >/dev/null || [ -x out/tools/actionlint ] && return
    need go
    GOBIN=$PWD/out/tools go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 >/dev/null 2>&1 ||
        lack "actionlint is missing; with Go 1.18 or later: go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
}

# need_unpacked PROGRAM: into out/tools. Debian's packages of these start a server on all addresses when they are installed.
need_unpacked() {
    command -v "$1" >/dev/null || [ -x "out/tools/$1" ] && return
    local work
    work=$(mktemp -d)
    (
        cd "$work" || exit
        chmod 755 .
        apt-get -qq download "$1" 2>/dev/null || { as_root apt-get update -qq && apt-get -qq download "$1"; }
        dpkg -x ./"$1"_*.deb .
    ) >/dev/null 2>&1
    mkdir -p out/tools
    cp "$work"/usr/bin/* out/tools/ 2>/dev/null || lack "$1 is missing; install it by hand"
    rm -rf "$work"
}

# HTTP/3 clients and servers: Python's in an environment of their own.
need_peers() {
    local program env=out/peers
    for program in python3 chromium chromedriver openssl curl; do
        need $program
    done
    need_unpacked caddy
    cmp --quiet $env/requirements.txt tools/peers/requirements.txt && return
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    rm -rf $env
    if python3 -m venv $env && $env/bin/pip install --quiet --disable-pip-version-check -r tools/peers/requirements.txt; then
        cp tools/peers/requirements.txt $env/
    else
        lack "aioquic and curl_cffi are missing; python3 -m venv $env && $env/bin/pip install -r tools/peers/requirements.txt"
    fi
}

# A browser, an encoder, and the player from npm, in a directory of its own.
need_dash() {
    local program version=5.2.1 home=out/dash
    for program in python3 ffmpeg chromium chromedriver node npm; do
        need $program
    done
    grep -qs "\"version\": \"$version\"" $home/node_modules/dashjs/package.json && return
    mkdir -p $home
    npm install --prefix $home --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "dashjs@$version" >/dev/null ||
        lack "dash.js is missing; npm install --prefix $home dashjs@$version"
}

# irtt from its Debian package, without the service that installing the package would start.
need_lag() {
    local home=out/lag
    need iperf3
    [ -x $home/usr/bin/irtt ] && return
    mkdir -p $home
    if ! { (cd $home && apt-get download -qq irtt) && dpkg-deb -x $home/irtt_*.deb $home; } 2>/dev/null; then
        lack "irtt is missing; unpack Debian's package irtt into $home"
    fi
}

# User Mode Linux: a kernel that is already built needs nothing more. With --newer the build fetches its source itself.
need_uml() {
    need ip
    tools/uml/build.sh "$@" --where >/dev/null && return
    if [ "$(uname -m)" != x86_64 ]; then
        lack "User Mode Linux runs on x86-64, this is $(uname -m)"
        return
    fi
    local program
    for program in make flex bison bc xz; do
        need $program
    done
    [ "${1:-}" != --newer ] || return 0
    [ -f /usr/src/linux-source-6.12.tar.xz ] || apt_install linux-source-6.12
    [ -f /usr/src/linux-source-6.12.tar.xz ] || lack "no Linux source; on Debian: apt-get install linux-source-6.12"
}

needs_of() {
    case $1 in
        format) need_rust && need_component rustfmt rustfmt ;;
        docs)
            need python3
            need codespell
            ;;
        workflows) need_workflows ;;
        targets) need_rust && need_targets ;;
        bpf) need_rust && need_cc && need_bpf ;;
        fresh)
            need mmdebstrap
            [ "$(id -u)" -eq 0 ] || lack "chroots need root"
            ;;
        *)
            need_rust
            need_cc
            ;;
    esac
    case $1 in
        lint) need_component cargo-clippy clippy ;;
        golden | commands | touches | chance) need python3 ;;
        grafana)
            need python3
            need_unpacked prometheus
            ;;
        aarch64)
            need qemu-aarch64
            need_target aarch64-unknown-linux-musl
            ;;
        no-std) need objdump ;;
        report)
            need python3
            need chromium
            need chromedriver
            ;;
        instructions)
            need python3
            need valgrind
            ;;
        oracle) need_oracle ;;
        host) need_host ;;
        kernels) need_kernels ;;
        kernels-aarch64)
            for program in aarch64-linux-gnu-gcc qemu-system-aarch64 cpio; do
                need $program
            done
            need_target aarch64-unknown-linux-gnu
            ;;
        release)
            for program in cmake python3 objdump mmdebstrap buildah podman runc qemu-aarch64; do
                need $program
            done
            need_loader
            need_python
            need_target x86_64-unknown-linux-musl
            need_target aarch64-unknown-linux-musl
            need_target aarch64-unknown-linux-gnu
            ;;&
        web | web-test | release)
            need node
            need npm
            need_target wasm32-unknown-unknown
            ;;&
        web-test)
            need python3
            need chromium
            need chromedriver
            # Without it, the checks in Firefox are skipped.
            command -v firefox-esr firefox >/dev/null || apt_install firefox-esr || true
            ;;
        quic) need cmake ;;
        peers)
            need cmake
            need_peers
            ;;
        dash)
            need cmake
            need_dash
            ;;
        lag)
            need cmake
            need_lag
            ;;
        python) need_python ;;
        uml | uml-tests | validate) need_uml ;;
        uml-newer | validate-l4s) need_uml --newer ;;
        fuzz) need c++ ;;
    esac
}

for step in "$@"; do
    needs_of "$step"
done
exit $missing
