"""Directories here or at URLs, as pyarrow's file systems."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

import os
from typing import Any

from bbrlab._extra import extra


def opened(path: str) -> tuple[Any, str]:
    """The file system of a path or URL that pyarrow or fsspec opens, and the path in it."""
    with extra("arrow"):
        import pyarrow.fs

    if "://" not in path:
        return pyarrow.fs.LocalFileSystem(), os.path.abspath(path)
    try:
        files, root = pyarrow.fs.FileSystem.from_uri(path)
        return files, root
    except (ValueError, NotImplementedError):
        with extra("cluster"):
            import fsspec.core

        remote, root = fsspec.core.url_to_fs(path)
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(remote)), root
