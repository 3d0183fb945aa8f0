#!/bin/bash
# Builds the Python package and tests it in an environment of its own, out/python.
# usage: tools/python.sh wheel | test | api | site
#   wheel  out/wheels: a wheel for Linux distributions since 2018 (manylinux_2_28), by maturin and zig, and the sources
#   test   a wheel for this machine, installed; ruff, mypy, pytest, the notebooks, the reference
#   api    out/python/api: the reference of the package that `test` installed, from its docstrings
#   site   the same of a wheel for this machine, and out/python/notebooks: the notebooks with what their cells give
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."
env=$PWD/out/python
python=$env/bin/python

# A stamp in the environment says which requirements it has.
install() {
    local stamp=$env/requirements.txt
    cmp --quiet "$stamp" tests/python/requirements.txt && return
    rm -rf "$env"
    python3 -m venv "$env"
    "$env/bin/pip" install --quiet --disable-pip-version-check -r tests/python/requirements.txt
    cp tests/python/requirements.txt "$stamp"
}

# build DIR OPTION…
build() {
    rm -rf "$1"
    PATH=$env/bin:$PATH VIRTUAL_ENV=$env "$env/bin/maturin" build --quiet --locked --out "$@"
}

# A wheel for this machine, installed. Optimised, with every assertion on, like the tests of Rust; they share what they build.
own() {
    build out/python/wheels --profile dev
    "$env/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$env"/wheels/*.whl
}

api() {
    (cd "$env" && "$env/bin/pdoc" --docformat markdown --output-directory "$env/api" bbrlab bbrlab.aioquic bbrlab.gym)
}

install
case ${1-} in
    wheel)
        build out/wheels --zig --compatibility manylinux_2_28
        "$env/bin/maturin" sdist --out out/wheels
        ls -l out/wheels
        ;;
    test)
        own
        "$python" tools/python_types.py --check
        "$env/bin/ruff" check --quiet python tests/python
        "$env/bin/ruff" format --quiet --check python tests/python
        "$env/bin/mypy" --python-executable "$python"
        # The package under test is the installed one.
        "$python" -P -m pytest -q -p no:cacheprovider tests/python
        api
        ;;
    api)
        api
        echo "out/python/api/index.html"
        ;;
    site)
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
