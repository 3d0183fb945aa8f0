#!/bin/bash
# Debian's kernel packages, of suites and architectures that this machine does not follow; sourced, with $architecture set.
# env: BBRLAB_KERNELS_CACHE the directory that keeps them
# SPDX-License-Identifier: Apache-2.0 OR MIT
export cache=${BBRLAB_KERNELS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/bbrlab/kernels}/$architecture
mkdir -p "$cache"

# Debian's lists for suites that this machine does not follow, kept apart from its own.
apt_lists() {
    local archive security key=/usr/share/keyrings/debian-archive-keyring.gpg
    archive=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Identifier: Packages' 2>/dev/null | sed -n 's/^Debian|//p' | head -n 1)
    security=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Identifier: Packages' 2>/dev/null | sed -n 's/^Debian-Security|//p' | head -n 1)
    [ -n "$archive" ] && [ -e "$key" ] || { echo "kernels: this is not Debian, whose package lists have the kernels" >&2; return 1; }
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
    touch "$cache/apt/status"
    {
        for suite in bullseye bookworm trixie trixie-backports; do echo "deb [signed-by=$key] $archive $suite main"; done
        [ -z "$security" ] || for suite in bookworm-security trixie-security; do echo "deb [signed-by=$key] $security $suite main"; done
    } > "$cache/apt/sources.list"
    cat > "$cache/apt/conf" <<END
Dir::Etc::sourcelist "$cache/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$cache/apt/lists";
Dir::Cache "$cache/apt/cache";
APT::Sandbox::User "root";
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::State::status "$cache/apt/status";
END
    # Once a day; lists that cannot be had again stay as they were.
    [ -n "$(find "$cache/apt/updated" -mtime -1 2>/dev/null)" ] || { apt_private apt-get -qq update && touch "$cache/apt/updated"; } || true
}
apt_private() { APT_CONFIG=$cache/apt/conf "$@"; }

# The newest package of each series, as `SERIES PACKAGE`. From Linux 6.19 on the files of an image are in two packages of other names.
packages() {
    local names
    names=$(apt_private apt-cache pkgnames linux- 2>/dev/null | grep -E '^linux-(image|binary|modules)-[0-9]+\.[0-9]+\.[^ ]*-cloud-'"$architecture"'$')
    while read -r package; do
        case $package in
            linux-image-*) ! grep -qxF "${package/image/binary}" <<< "$names" || continue ;;
            linux-binary-*) grep -qxF "${package/binary/modules}" <<< "$names" || continue ;;
            *) continue ;;
        esac
        sed -E 's/^linux-[a-z]+-([0-9]+\.[0-9]+).*/\1 &/' <<< "$package"
    done <<< "$names" | sort -k1,1V -k2,2V | awk '{ newest[$1] = $2 } END { for (series in newest) print series, newest[series] }' | sort -V
}

# Prints the directory of a package's kernel, unpacked; downloads it the first time.
kernel_of() {
    local package=$1 root=$cache/root/$1 work
    if [ ! -d "$root" ]; then
        work=$(mktemp -d "$cache/new.XXXXXX")
        (
            cd "$work"
            case $package in linux-binary-*) more=${package/binary/modules} ;; *) more= ;; esac
            # shellcheck disable=SC2086 # empty or one word
            apt_private apt-get -qq download "$package" $more >&2
            mkdir root
            for file in *.deb; do dpkg -x "$file" root; done
        ) || { rm -rf "$work"; return 1; }
        mkdir -p "$cache/root"
        mv "$work/root" "$root"
        rm -rf "$work"
    fi
    echo "$root"
}
