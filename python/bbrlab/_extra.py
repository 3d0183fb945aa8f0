"""Packages that only parts of bbrlab need."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def extra(name: str) -> Iterator[None]:
    """Imports a package of the extra `name`; an error names what installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = f"this part of bbrlab needs {error.name}, which is not installed: pip install 'bbrlab[{name}]'"
        raise ImportError(line, name=error.name) from None
