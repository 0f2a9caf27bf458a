# SPDX-License-Identifier: MIT
"""Finds the shared library that plans: beside this file, or at the path in $LAZYPRUNE_LIBRARY."""

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
    """Returns the library that all calls share by default, with the policies that were added to it (Library.add_scorer,
    Library.add_schedule)."""
    return Library(library_path())
