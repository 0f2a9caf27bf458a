# SPDX-License-Identifier: MIT
"""Builds the package with scikit-build-core, which builds the shared library with CMake. The library's sources and the
license lie outside this folder, so an sdist gets copies of them."""

import contextlib
import pathlib
import shutil

from scikit_build_core import build as backend
from scikit_build_core.build import *  # noqa: F403 (scikit-build-core's own hooks, all but build_sdist)

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CARRIED = ["include/lazyprune", "examples/c_library", "LICENSE"]


@contextlib.contextmanager
def carried_sources():
    if (HERE / "PKG-INFO").exists():  # this folder is an unpacked sdist, which has the copies
        yield
        return
    native = HERE / "native"
    native.mkdir()  # fails if the folder exists, so that the last line removes only what this call made
    try:
        for name in CARRIED:
            source, place = ROOT / name, native / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, place)
        yield
    finally:
        shutil.rmtree(native)


def build_sdist(sdist_directory, config_settings=None):
    with carried_sources():
        return backend.build_sdist(sdist_directory, config_settings)
