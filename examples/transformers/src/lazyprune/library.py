# SPDX-License-Identifier: MIT
"""The shared library that plans: it lies beside this file, or where $LAZYPRUNE_LIBRARY says."""

from __future__ import annotations

import functools
import os
import pathlib
import sys

from .c import Library

_NAMES = {"win32": "lazyprune.dll", "darwin": "liblazyprune.dylib"}


def library_path() -> str:
    given = os.environ.get("LAZYPRUNE_LIBRARY")
    if given:
        return given
    path = pathlib.Path(__file__).with_name(_NAMES.get(sys.platform, "liblazyprune.so"))
    if not path.exists():
        raise ImportError(f"{path}: expected the shared library that an installation of this package builds, found none")
    return str(path)


@functools.cache
def shared_library() -> Library:
    """The library's policies, and those that were added to it by name (Library.add_scorer, Library.add_schedule)."""
    return Library(library_path())
