# SPDX-License-Identifier: MIT
"""A recipe for Conan 2, which packages the source tree that it lies in: conan create cmake/conan"""

import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

REQUIREMENTS = {
    "cpu": ["xsimd/[>=8.1]"],
    "files": ["nlohmann_json/[>=3.11]"],
    "unicode": ["pcre2/[>=10.42]", "utf8proc/[>=2.8]"],
}
PACKAGES = {"cpu": "xsimd", "files": "nlohmann_json", "unicode": "PkgConfig"}  # as CMake names them


class Lazyprune(ConanFile):
    name = "lazyprune"
    description = "Token pruning for LLM inference (LazyLLM): policies, sessions and a reference transformer"
    license = "MIT"
    topics = ("llm", "inference", "token-pruning", "kv-cache", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {component: [True, False] for component in REQUIREMENTS}
    default_options = {component: True for component in REQUIREMENTS}
    generators = "CMakeDeps", "PkgConfigDeps"

    def _root(self):
        return pathlib.Path(self.recipe_folder).parent.parent

    def set_version(self):
        version = (self._root() / "include/lazyprune/version.hpp").read_text()
        self.version = re.search(r'LAZYPRUNE_VERSION_STRING "(.*)"', version)[1]

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, src=str(self._root()), dst=self.export_sources_folder)

    def configure(self):
        if not self.options.files:
            self.options.rm_safe("unicode")  # its headers include those of `files`

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        for component, packages in REQUIREMENTS.items():
            for package in packages if self.options.get_safe(component) else ():
                self.requires(package, transitive_headers=True, transitive_libs=True)

    def package_id(self):
        self.info.settings.clear()

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(f"lazyprune: expected Linux, found {self.settings.os}")
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"LAZYPRUNE_BUILD_{part}"] = False
        # A component is defined if its packages are found. One that is switched off must not find them on the system.
        for component, package in PACKAGES.items():
            toolchain.cache_variables[f"CMAKE_DISABLE_FIND_PACKAGE_{package}"] = not self.options.get_safe(component)
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", src=self.source_folder, dst=str(pathlib.Path(self.package_folder) / "licenses"))
        rmdir(self, str(pathlib.Path(self.package_folder) / "share/doc"))

    def package_info(self):
        # Users find the library's own CMake package, which has a target for each component.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/lazyprune"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
