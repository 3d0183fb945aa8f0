#!/bin/bash
# Downloads the newest kernel source of Debian's backports into DIR as PACKAGE.deb, and prints the package's name. Installs nothing.
# usage: tools/uml/newer.sh DIR
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
to=$1
export architecture=amd64
# shellcheck source=tools/kernels/packages.sh
. "$(dirname "$0")/../kernels/packages.sh"
apt_lists || exit 1
package=$(apt_private apt-cache pkgnames linux-source- | grep -xE 'linux-source-[0-9]+\.[0-9]+' | sort -V | tail -n 1)
[ -n "$package" ] || exit 1
cd "$to"
apt_private apt-get -qq download "$package" >&2
mv "$package"_*.deb "$package.deb"
echo "$package"
