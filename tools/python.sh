#!/bin/bash
# Builds the Python package and tests it in an environment of its own, out/python.
# usage: tools/python.sh wheel | test | api | site
#   wheel  out/wheels: wheels for Linux distributions since 2018 (manylinux_2_28) on x86-64 and aarch64, by maturin and zig; the sources
#   test   a wheel for this machine, installed; ruff, mypy, pytest, the notebooks, the reference
#   api    out/python/api: the reference of the package that `test` installed, from its docstrings
#   site   the same of a wheel for this machine, and out/python/notebooks: the notebooks with what their cells give
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
env=$PWD/out/python
python=$env/bin/python

# install REQUIREMENTS: an environment with exactly these; a stamp in it says which it has.
install() {
    local stamp=$env/requirements.txt
    cmp --quiet "$stamp" "$1" && return
    rm -rf "$env"
    python3 -m venv "$env"
    "$env/bin/pip" install --quiet --disable-pip-version-check -r "$1"
    cp "$1" "$stamp"
}

# build DIR OPTION…
build() {
    PATH=$env/bin:$PATH VIRTUAL_ENV=$env "$env/bin/maturin" build --quiet --locked --out "$@"
}

# A wheel for this machine, installed. Optimised, with every assertion on, like the tests of Rust; they share what they build.
own() {
    rm -rf "$env/wheels"
    build "$env/wheels" --profile dev
    "$env/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$env"/wheels/*.whl
}

# Wheels of both architectures and the sources, by an environment with the tools of building alone.
wheels() {
    local arch
    env=$PWD/out/python-build
    mkdir -p out
    grep -E '^(maturin|ziglang)==' tests/python/requirements.txt >out/python-build.txt
    install out/python-build.txt
    rm -rf out/wheels
    # A licence of the wheels, and of them alone.
    trap 'rm -f LICENSE-THIRD-PARTY' EXIT
    for arch in x86_64 aarch64; do
        tools/licences.py bbrlab-py "$arch-unknown-linux-gnu" '' >LICENSE-THIRD-PARTY
        build out/wheels --zig --compatibility manylinux_2_28 --target "$arch-unknown-linux-gnu"
    done
    rm LICENSE-THIRD-PARTY
    "$env/bin/maturin" sdist --out out/wheels
}

api() {
    (cd "$env" && "$env/bin/pdoc" --docformat markdown --output-directory "$env/api" bbrlab bbrlab.aioquic bbrlab.gym)
}

case ${1-} in
    wheel)
        wheels
        ls -l out/wheels
        ;;
    test)
        install tests/python/requirements.txt
        own
        "$python" tools/python_types.py --check
        "$env/bin/ruff" check --quiet python tests/python
        "$env/bin/ruff" format --quiet --check python tests/python
        "$env/bin/mypy" --python-executable "$python"
        # The package under test is the installed one.
        "$python" -P -m pytest -q -p no:cacheprovider -n 2 tests/python
        api
        ;;
    api)
        install tests/python/requirements.txt
        api
        echo "out/python/api/index.html"
        ;;
    site)
        install tests/python/requirements.txt
        own
        api
        rm -rf "$env/notebooks"
        cp -r docs/notebooks "$env/notebooks"
        "$env/bin/jupyter-execute" --inplace "$env"/notebooks/*.ipynb
        ;;
    *)
        sed -n '2,7s/^# //p' "$0" >&2
        exit 2
        ;;
esac
