#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds what is released into out/release, and tries it in fresh places without this repository.
# usage: tools/release.sh PART…      crates archives deb image wheels sbom sums; without any: all, in this order
#   crates    the published crates, in order; each unpacked elsewhere, built, tested and documented
#   archives  a static command for x86-64 and aarch64, with man pages, completions and units
#   deb       a Debian package for this architecture; installed, used, removed and purged in a chroot
#   image     an OCI image of the static command; run rootless
#   wheels    Python packages for both architectures, and the sources; installed in a fresh environment
#   sbom      the dependencies of the command, as CycloneDX; sums: SHA256SUMS of all of it. Not among all:
#   check     changelog, kept results, licences, unused dependencies, words, `semver`, other systems, the oldest compiler
#   semver    core's public interface beside the packages in tests/compat
#   again     crates, x86-64 archive and Debian package in a clone elsewhere (`pack`): the same bytes
# Equal sources and tools give equal bytes: the date is the commit's, and no path of this machine is in the files.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."

root=$PWD
out=$root/out/release
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
# Tests with fewer rights than ours find their files in it.
chmod 711 "$scratch"
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"

say() { echo "release: $*"; }
fail() { echo "release: $*" >&2; exit 1; }

# size FILE: its name and size
size() { say "$(basename "$1"), $(numfmt --to=si --suffix=B "$(stat -c %s "$1")")"; }

# No path of this machine in what is built. The last prefix that fits counts: the target directory may be below the root.
remap="--remap-path-prefix=$root=. --remap-path-prefix=$registry=registry --remap-path-prefix=$target=target"

# The playground is inside the command.
web() {
    [ -z "${BBRLAB_WEB:-}" ] || return 0
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$remap tools/web.sh >/dev/null
    export BBRLAB_WEB=$root/out/web
}

# build TARGET FEATURES: the command, at $target/TARGET/dist/bbrlab
build() {
    web
    local linker=()
    case $1 in *-musl) linker=(--config "target.$1.linker='rust-lld'") ;; esac
    # C in libraries: libbpf and the cryptography of QUIC.
    CFLAGS="-ffile-prefix-map=$target=target -ffile-prefix-map=$registry=registry" RUSTFLAGS="$remap -Cstrip=symbols" \
        cargo build --quiet --locked --profile dist -p bbrlab --features "$2" --target "$1" "${linker[@]}"
}

# papers COMMAND DIR TARGET FEATURES: licences, man pages, completions and units; the licences are those of a build
papers() {
    install -Dm644 -t "$2" LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md
    tools/licences.py bbrlab "$3" "$4" >"$2/LICENSE-THIRD-PARTY"
    mkdir -p "$2"/{man,completions,systemd}
    "$1" man --out "$2/man"
    "$1" completions bash >"$2/completions/bbrlab.bash"
    "$1" completions zsh >"$2/completions/_bbrlab"
    "$1" completions fish >"$2/completions/bbrlab.fish"
    install -m644 -t "$2/systemd" contrib/*.service
}

# tarball DIR ARCHIVE: the same bytes for the same files
tarball() {
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        --directory "$(dirname "$1")" "$(basename "$1")" | gzip --no-name --best >"$2"
}

# What is published, in the order in which it can be.
published=(bbrlab-core bbrlab-stats bbrlab-sim bbrlab-report bbrlab-quic)

pack_crates() {
    local name selected=()
    for name in "${published[@]}"; do selected+=(-p "$name"); done
    # Unless told otherwise, cargo builds each package from the others' packages, not from this workspace.
    cargo package --quiet --locked --allow-dirty "$@" "${selected[@]}"
    for name in "${published[@]}"; do cp "$target/package/$name-$version.crate" "$out/"; done
}

crates() {
    pack_crates
    # Packages that need each other are found without a registry.
    local name places=$scratch/crates
    mkdir -p "$places"
    printf '[patch.crates-io]\n' >"$scratch/patch.toml"
    for name in "${published[@]}"; do
        tar xzf "$out/$name-$version.crate" -C "$places"
        [ "$(find "$places/$name-$version" -maxdepth 1 -name README.md -o -maxdepth 1 -name 'LICENSE-*' | wc -l)" -eq 3 ] || fail "$name: no README or licence"
        printf '%s = { path = "%s" }\n' "$name" "$places/$name-$version" >>"$scratch/patch.toml"
    done
    for name in "${published[@]}"; do
        (
            cd "$places/$name-$version"
            printf '\n[workspace]\n' >>Cargo.toml
            export CARGO_TARGET_DIR=$target/package-test CARGO_PROFILE_DEV_OPT_LEVEL=1
            cargo test --quiet --config "$scratch/patch.toml" >"$scratch/said" 2>&1 || { tail -n 40 "$scratch/said"; fail "$name fails its tests outside the workspace"; }
            RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --config "$scratch/patch.toml" || fail "$name: rustdoc warns"
        )
        size "$out/$name-$version.crate"
    done
}

# pack_archive ARCH
pack_archive() {
    local name=bbrlab-$version-$1-linux
    build "$1-unknown-linux-musl" tune
    # Man pages and completions are those of the command that this machine runs.
    papers "$target/x86_64-unknown-linux-musl/dist/bbrlab" "$scratch/$name" "$1-unknown-linux-musl" tune
    install -m755 "$target/$1-unknown-linux-musl/dist/bbrlab" "$scratch/$name/"
    tarball "$scratch/$name" "$out/$name.tar.gz"
}

archives() {
    local arch
    for arch in x86_64 aarch64; do
        pack_archive "$arch"
        try_archive "$arch" "bbrlab-$version-$arch-linux"
        size "$out/bbrlab-$version-$arch-linux.tar.gz"
    done
}

# try_archive ARCH NAME: unpacked elsewhere, with nothing but the kernel
try_archive() {
    local place=$scratch/tried run=()
    rm -rf "$place" && mkdir "$place" && tar xzf "$out/$2.tar.gz" -C "$place"
    [ "$1" = "$(uname -m)" ] || run=("$(command -v "qemu-$1")") || fail "no qemu-$1 to try $2"
    run+=("$place/$2/bbrlab")
    env -i "${run[@]}" --version | grep -qx "bbrlab $version" || fail "$2: another version"
    env -i "${run[@]}" run --duration 5s --flow bbr3 | grep -q '^bbr3#0' || fail "$2: run"
}

deb() {
    local file
    pack_deb
    file=$out/bbrlab_${version}_$(dpkg --print-architecture).deb
    try_deb "$file"
    size "$file"
}

pack_deb() {
    local arch host tree=$scratch/deb
    arch=$(dpkg --print-architecture) || fail "no dpkg: the Debian package is built on Debian"
    host=$(rustc -vV | sed -n 's/^host: //p')
    build "$host" tune,host,quic
    install -Dm755 "$target/$host/dist/bbrlab" "$tree/usr/bin/bbrlab"
    papers "$tree/usr/bin/bbrlab" "$scratch/papers" "$host" tune,host,quic
    install -d "$tree"/usr/share/{doc/bbrlab,man/man1} "$tree/lib/systemd/system" "$tree/DEBIAN"
    install -m644 -t "$tree/usr/share/man/man1" "$scratch"/papers/man/*
    gzip --no-name --best "$tree"/usr/share/man/man1/*
    gzip --no-name --best <CHANGELOG.md >"$tree/usr/share/doc/bbrlab/changelog.gz"
    gzip --no-name --best <"$scratch/papers/LICENSE-THIRD-PARTY" >"$tree/usr/share/doc/bbrlab/LICENSE-THIRD-PARTY.gz"
    install -Dm644 "$scratch/papers/completions/bbrlab.bash" "$tree/usr/share/bash-completion/completions/bbrlab"
    install -Dm644 "$scratch/papers/completions/_bbrlab" "$tree/usr/share/zsh/vendor-completions/_bbrlab"
    install -Dm644 "$scratch/papers/completions/bbrlab.fish" "$tree/usr/share/fish/vendor_completions.d/bbrlab.fish"
    local unit
    for unit in contrib/*.service; do
        sed 's,/usr/local/bin/bbrlab,/usr/bin/bbrlab,g; /^# install -m 644/d' "$unit" >"$tree/lib/systemd/system/$(basename "$unit")"
    done
    chmod 644 "$tree"/lib/systemd/system/*
    cat >"$tree/usr/share/doc/bbrlab/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Source: https://github.com/bbrlab/bbrlab

Files: *
Copyright: The bbrlab contributors
Comment: The command contains works of others. Their authors, licences and sources
 are in LICENSE-THIRD-PARTY.gz beside this file.
License: Apache-2.0 or Expat
 The Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
$(sed 's/^$/./; s/^/ /' LICENSE-MIT)
END
    debian_control "$tree" "$arch"
    find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$tree" "$out/bbrlab_${version}_$arch.deb" >/dev/null
}

# debian_control TREE ARCH: the package's fields and scripts
debian_control() {
    # Symbols of the C library decide which one it needs.
    local libc
    libc=$(objdump -T "$1/usr/bin/bbrlab" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | cut -d _ -f 2)
    cat >"$1/DEBIAN/control" <<END
Package: bbrlab
Version: $version
Architecture: $2
Maintainer: The bbrlab contributors <noreply@bbrlab.invalid>
Section: net
Priority: optional
Installed-Size: $(find "$1" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
Depends: libc6 (>= $libc), libgcc-s1, libelf1 (>= 0.144) | libelf1t64, zlib1g
Homepage: https://github.com/bbrlab/bbrlab
Description: BBR congestion control: simulate, compare, load, watch
 Every version of BBR beside CUBIC and Reno: in a simulator that agrees with
 real kernels, in this host's kernel as BPF, and in QUIC. The units are not
 enabled: bbrlab-exporter serves metrics, bbrlab-policy applies a policy.
END
    # What the command changed on the host is undone while the command is there. Its records stay until the package is purged.
    cat >"$1/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
if [ "$1" = purge ]; then rm -rf /var/lib/bbrlab /var/lib/bbrlab-rules /run/bbrlab; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload >/dev/null || true; fi
END
    cat >"$1/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
[ "$1" = remove ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl stop bbrlab-exporter.service bbrlab-policy.service 'bbrlab-rule@*.service' >/dev/null 2>&1 || true
    systemctl disable bbrlab-exporter.service bbrlab-policy.service bbrlab-rule@.service >/dev/null 2>&1 || true
fi
bbrlab host disable >/dev/null || true
[ -d /run/bbrlab ] || [ -d /sys/fs/bpf/bbrlab ] || exit 0
bbrlab ab stop >/dev/null 2>&1 || true
bbrlab host policy remove >/dev/null || true
bbrlab host status | sed -n 's/^loaded  *\([^ :]*\):.*/\1/p' | while read -r name; do
    bbrlab host unload "$name" >/dev/null || true
done
END
    chmod 755 "$1"/DEBIAN/p*rm
}

# try_deb FILE: in a chroot of the oldest Debian that it supports; removing it undoes what was enabled, purging leaves nothing
try_deb() {
    [ "$(id -u)" -eq 0 ] || { say "the package is not tried: chroots need root"; return; }
    local chroot=$scratch/chroot
    mmdebstrap --quiet --variant=minbase --include=libelf1,zlib1g bookworm "$chroot" >/dev/null 2>&1 || fail "mmdebstrap makes no chroot of Debian 12; it needs a network"
    list() { (cd "$chroot" && find . -path ./var/lib/dpkg -prune -o -path ./var/log -prune -o -print | sort); }
    mkdir -p "$chroot/etc/sysctl.d"
    list >"$scratch/before"
    cp "$1" "$chroot/tmp/"
    chroot "$chroot" dpkg -i "/tmp/$(basename "$1")" >/dev/null
    chroot "$chroot" bbrlab run --duration 5s --flow bbr-lab | grep -q '^bbr-lab#0' || fail "the installed command does not run"
    chroot "$chroot" bbrlab doctor >/dev/null || [ $? -le 1 ]
    mkdir -p "$chroot"/var/lib/bbrlab{,-rules}/kept
    # As `host enable` leaves them, but for the settings of the running kernel, which is this machine's.
    echo 'net.ipv4.tcp_congestion_control = bbr' >"$chroot/etc/sysctl.d/90-bbrlab.conf"
    echo '[{"file":{"path":"etc/sysctl.d/90-bbrlab.conf","text":"net.ipv4.tcp_congestion_control = bbr\n","before":null}}]' >"$chroot/var/lib/bbrlab/enabled.json"
    chroot "$chroot" dpkg -r bbrlab >/dev/null
    [ ! -e "$chroot/etc/sysctl.d/90-bbrlab.conf" ] || fail "removing the package leaves what was enabled"
    [ -d "$chroot/var/lib/bbrlab/kept" ] || fail "removing the package removed the host's records"
    chroot "$chroot" dpkg -P bbrlab >/dev/null
    rm "$chroot/tmp/$(basename "$1")"
    list >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >&2 || fail "purging the package leaves files"
}

image() {
    local name=bbrlab-$version-oci-x86_64.tar store place=$scratch/context
    build x86_64-unknown-linux-musl tune
    store=(--root "$scratch/store" --runroot "$scratch/run" --storage-driver vfs)
    install -Dm755 -t "$place" "$target/x86_64-unknown-linux-musl/dist/bbrlab"
    install -m644 -t "$place" LICENSE-APACHE LICENSE-MIT
    tools/licences.py bbrlab x86_64-unknown-linux-musl tune >"$place/LICENSE-THIRD-PARTY"
    touch --date="@$SOURCE_DATE_EPOCH" "$place"/*
    buildah "${store[@]}" bud --quiet --isolation chroot --timestamp "$SOURCE_DATE_EPOCH" -t "bbrlab:$version" \
        -f contrib/Containerfile.static "$place" >/dev/null
    rm -f "$out/$name"
    buildah "${store[@]}" push --quiet "bbrlab:$version" "oci-archive:$out/$name:bbrlab:$version"
    [ "$(stat -c %s "$out/$name")" -le 60000000 ] || fail "$name is larger than 60 MB"
    try_image "$out/$name"
    size "$out/$name"
}

# rootless ARGUMENT…: podman without any right, in a home of its own; root becomes the user nobody
rootless() {
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    # runc runs on every layout of control groups, crun only on the newer ones.
    (cd "$scratch/home" && "${user[@]}" env -i PATH="$PATH" HOME="$scratch/home" XDG_RUNTIME_DIR="$scratch/home" \
        podman --log-level fatal --storage-driver vfs --cgroup-manager cgroupfs --runtime runc "$@")
}

# try_image FILE: run, reproduce and play in rootless containers
try_image() {
    unshare --user true 2>/dev/null || fail "rootless containers need user namespaces, which this machine refuses"
    install -d -m 700 "$scratch/home"
    [ "$(id -u)" -ne 0 ] || chown 65534:65534 "$scratch/home"
    rootless load --quiet <"$1" >/dev/null
    local run=(rootless run --rm --network none "bbrlab:$version")
    "${run[@]}" run --duration 5s --flow bbr3 | grep -q '^bbr3#0' || fail "the image does not run"
    "${run[@]}" reproduce F8 >"$scratch/said" || fail "the image does not reproduce F8: $(tail -n 1 "$scratch/said")"
    # The page is served on the loopback interface alone: the container shares the host's.
    rootless run --rm --name play --network host "bbrlab:$version" play --no-open --port 0 >"$scratch/play" &
    local address='' page=''
    for _ in {1..100}; do
        address=$(grep -om1 'http://127.0.0.1:[0-9]*/' "$scratch/play") && break
        sleep 0.1
    done
    page=$(python3 -c "import gzip, sys, urllib.request as u
print(gzip.decompress(u.urlopen(u.Request(sys.argv[1], headers={'Accept-Encoding': 'gzip'})).read()).decode())" "$address") || true
    rootless kill --signal INT play >/dev/null
    wait $! || true
    rootless system migrate
    [[ $page == *'<html'* ]] || fail "the image serves no playground"
    say "the image runs, reproduces F8 and plays, rootless"
}

wheels() {
    local file
    RUSTFLAGS="$remap -Cstrip=symbols" tools/python.sh wheel >"$scratch/said" 2>&1 || { tail -n 40 "$scratch/said"; fail "no wheels"; }
    rm -f "$out"/bbrlab-*.whl
    cp out/wheels/* "$out/"
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check twine
    "$scratch/venv/bin/twine" --no-color check --strict "$out"/*.whl "$out/bbrlab-$version.tar.gz"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$out" --only-binary bbrlab "bbrlab==$version"
    (cd "$scratch" && venv/bin/python -c "$try_wheel")
    try_foreign_wheel
    # The sources hold all that the extension compiles in; their lock file names crates that they leave out.
    tar xzf "$out/bbrlab-$version.tar.gz" -C "$scratch"
    CARGO_TARGET_DIR=$target/sdist cargo check --quiet --manifest-path "$scratch/bbrlab-$version/crates/py/Cargo.toml"
    for file in "$out"/bbrlab-*.whl "$out/bbrlab-$version.tar.gz"; do size "$file"; done
}

try_wheel="import bbrlab, platform; flow = bbrlab.run(flow=['bbr3'], duration='5s').flows[0]
print('release: wheel', bbrlab.__version__, 'on', platform.machine(), 'with Python', platform.python_version() + ':', flow.goodput_bps, 'bit/s')"

# The wheel of the other architecture, in Debian's Python for it under qemu-user.
try_foreign_wheel() {
    local arch=aarch64 debian=arm64 root=$scratch/foreign
    [ "$(uname -m)" != aarch64 ] || { arch=x86_64 debian=amd64; }
    mmdebstrap --quiet --variant=extract --architectures="$debian" --include=python3-minimal,libpython3-stdlib bookworm "$root" >/dev/null 2>&1 || fail "mmdebstrap brings no Python for $arch; it needs a network"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$out" --target "$root/site" \
        --platform "manylinux_2_28_$arch" --only-binary :all: "bbrlab==$version"
    PYTHONPATH=$root/site "qemu-$arch" -L "$root" "$root/usr/bin/python3" -c "$try_wheel"
}

sbom() {
    cargo_tool cargo-cyclonedx 0.5.9
    cargo cyclonedx --manifest-path crates/cli/Cargo.toml --format json --features tune,host,quic --override-filename "bbrlab-$version.cdx" --quiet
    sed "s,file://$root/,file:///,g" "crates/cli/bbrlab-$version.cdx.json" >"$out/bbrlab-$version.cdx.json"
    find crates bpf -name "bbrlab-$version.cdx.json" -delete
    python3 -c "import json, sys; print('release:', len(json.load(open(sys.argv[1]))['components']), 'components in the SBOM')" "$out/bbrlab-$version.cdx.json"
}

sums() {
    (cd "$out" && rm -f SHA256SUMS && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS && sha256sum --quiet --check SHA256SUMS)
    say "$(wc -l <"$out/SHA256SUMS") files in $out"
}

# cargo_tool NAME VERSION: a cargo command in a directory of its own
cargo_tool() {
    [ -x "out/tools/bin/${1%-cli}" ] || cargo install --quiet --locked --root out/tools "$1@$2"
    PATH=$root/out/tools/bin:$PATH
}

# The public interface of core beside that of every version whose package is kept.
semver() {
    local package kept
    cargo_tool cargo-semver-checks 0.51.0
    for package in tests/compat/*/bbrlab-core-*.crate; do
        [ -e "$package" ] || fail "tests/compat keeps no package of core"
        kept=$(basename "$package" .crate)
        tar xzf "$package" -C "$scratch"
        cargo semver-checks --package bbrlab-core --baseline-root "$scratch/$kept" >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; fail "core breaks the interface of $kept"; }
        say "core keeps the interface of $kept"
    done
}

check() {
    local name system oldest
    grep -q "^## \[$version\]" CHANGELOG.md || fail "CHANGELOG.md has no section for $version"
    [ -e "tests/compat/$version/result.json" ] || fail "tests/compat/$version keeps no results of this version"
    cargo_tool cargo-deny 0.20.2
    cargo deny --offline --log-level error check --hide-inclusion-graph -A duplicate licenses bans sources
    cargo_tool cargo-machete 0.9.2
    cargo machete crates >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; fail "unused dependencies"; }
    cargo_tool typos-cli 1.52.0
    typos
    say "no dependency is unused, no word is misspelt"
    semver
    # Nothing in these needs Linux.
    for system in x86_64-pc-windows-gnu x86_64-apple-darwin aarch64-apple-darwin; do
        rustup target add "$system" >/dev/null 2>&1 || fail "no Rust library for $system"
        for name in core stats sim report web; do cargo check --quiet --locked -p "bbrlab-$name" --target "$system"; done
        say "core, stats, sim, report and web pass cargo check for $system"
    done
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' crates/core/Cargo.toml)
    rustup toolchain install --profile minimal "$oldest" >/dev/null 2>&1 || fail "no Rust $oldest"
    CARGO_TARGET_DIR=$target/oldest cargo "+$oldest" check --quiet --manifest-path examples/own-algorithm/Cargo.toml
    say "core builds with Rust $oldest"
    cat <<END
By hand, by a maintainer:
  1. cargo deny check advisories, which fetches their database
  2. the date of $version in CHANGELOG.md; a signed tag v$version, pushed: release.yml builds, signs and drafts
  3. publish the draft; approve the jobs crates.io and PyPI; the first time cargo publish, in the order of \`tools/release.sh crates\`
  4. the findings in docs/upstream, to the trackers named in them
END
}

pack() {
    pack_crates --no-verify
    pack_archive x86_64
    pack_deb
}

again() {
    local copy=$scratch/again file name
    [ -z "$(git status --porcelain)" ] || fail "again builds a clone, which lacks what is not committed"
    git clone --quiet . "$copy"
    env -u BBRLAB_WEB CARGO_TARGET_DIR="$copy/target" "$copy/tools/release.sh" pack
    for file in "$copy"/out/release/*; do
        name=${file##*/}
        [ -e "$out/$name" ] || fail "again needs $name; first: tools/release.sh crates archives deb"
        cmp "$file" "$out/$name" || fail "$name has other bytes if it is built in another folder"
        say "$name, the same bytes from another folder"
    done
}

[ $# -gt 0 ] || set -- crates archives deb image wheels sbom sums
for part; do
    case $part in
        crates | archives | deb | image | wheels | sbom | sums | check | semver | again | pack) "$part" ;;
        *)
            sed -n '3,14s/^# //p' "$0" >&2
            exit 2
            ;;
    esac
done
