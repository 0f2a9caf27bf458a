# SPDX-License-Identifier: MIT
"""Builds and runs ../project with the package that the recipe made: conan create cmake/conan --test-folder ../../tests/consumer/conan"""

import pathlib

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class UsesLazyprune(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "PkgConfigDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        options = self.dependencies["lazyprune"].options
        whole = all(options.get_safe(component) for component in ("cpu", "files", "unicode"))
        toolchain.cache_variables["LAZYPRUNE_BY"] = "components" if whole else "find_package"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=str(pathlib.Path(self.recipe_folder).parent / "project"))
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(str(pathlib.Path(self.build_folder) / "consumer"), env="conanrun")
