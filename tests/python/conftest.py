"""Fixtures: the command beside which Python is held."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BBRLAB = os.environ.get("BBRLAB", str(ROOT / "target/debug/bbrlab"))


@pytest.fixture(scope="session")
def command():
    """Runs the command with arguments, and returns its JSON and its standard error."""

    def call(*args, stdin=None):
        done = subprocess.run([BBRLAB, *args], input=stdin, capture_output=True, text=True)
        return (json.loads(done.stdout) if done.returncode == 0 and done.stdout else None), done.stderr

    return call
