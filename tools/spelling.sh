#!/bin/bash
# Finds known misspellings in pages, sources and experiment files, with codespell. Its false positives are in tools/words.txt.
# usage: tools/spelling.sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files -co --exclude-standard -- '*.md' '*.rs' '*.py' '*.sh' '*.toml' '*.js' '*.css' '*.c' '*.h' Makefile ':!typos.toml' |
    grep -v /vendor/ |
    xargs codespell --builtin clear,rare,usage --ignore-words tools/words.txt
