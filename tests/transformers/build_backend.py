# SPDX-License-Identifier: MIT
"""Tests which folders the package's build backend copies and removes. A stand-in takes the place of scikit-build-core.

build_backend.py REPOSITORY
"""

import importlib.util
import pathlib
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

BACKEND = pathlib.Path(sys.argv.pop(1)) / "examples/transformers/build_backend.py"


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class Sdist(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        self.here = root / "examples/transformers"
        self.native = self.here / "native"
        for name in ("include/lazyprune/version.hpp", "examples/c_library/lazyprune.cpp", "LICENSE", "examples/transformers/pyproject.toml"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("of the checkout")
        shutil.copy(BACKEND, self.here)

    def built(self):
        """Makes an sdist, and returns the files that native/ has meanwhile."""
        build = types.SimpleNamespace(build_sdist=lambda *_: files(self.native))
        stand_in = types.ModuleType("scikit_build_core")
        stand_in.build = build
        modules = {"scikit_build_core": stand_in, "scikit_build_core.build": build}
        spec = importlib.util.spec_from_file_location("build_backend", self.here / "build_backend.py")
        backend = importlib.util.module_from_spec(spec)
        with mock.patch.dict(sys.modules, modules):
            spec.loader.exec_module(backend)
        return backend.build_sdist("out")

    def test_of_a_checkout(self):
        self.assertEqual(self.built(), ["LICENSE", "examples/c_library/lazyprune.cpp", "include/lazyprune/version.hpp"])
        self.assertFalse(self.native.exists())

    def test_of_an_sdist_within_a_checkout(self):
        (self.here / "PKG-INFO").touch()
        self.native.mkdir()
        (self.native / "own").touch()
        self.assertEqual(self.built(), ["own"])
        self.assertEqual(files(self.native), ["own"])

    def test_a_folder_of_someone_else_stays(self):
        self.native.mkdir()
        (self.native / "own").touch()
        with self.assertRaisesRegex(FileExistsError, "native"):
            self.built()
        self.assertEqual(files(self.native), ["own"])


if __name__ == "__main__":
    unittest.main()
