#!/bin/bash
# Checks .github/workflows with actionlint, their shell lines included, and that each action is pinned by its commit.
# usage: tools/workflows.sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
set -euo pipefail
cd "$(dirname "$0")/.."

actionlint=$(command -v actionlint || echo out/tools/actionlint)
"$actionlint"
# A tag can be moved to another commit, a commit's name cannot.
if grep -nE '^ *(- )?uses: ' .github/workflows/*.yml | grep -vE 'uses: [^@ ]+@[0-9a-f]{40} # v[0-9.]+$'; then
    echo "workflows: pin these actions by commit, with the version as a comment" >&2
    exit 1
fi
echo "workflows: $(find .github/workflows -name '*.yml' | wc -l) files pass actionlint, every action is pinned"
