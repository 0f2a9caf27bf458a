#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes Conan packages by the recipe in cmake/conan, without and with all components, and builds ../project with them. The script writes recipes
# for the packages that the components need. They use the system's packages, so the test needs no server of packages.
#   conan.sh CONAN OUT_FOLDER
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
conan=$1 out=$2
rm -rf "$out"
mkdir -p "$out/system"
trap 'code=$?; [ "$code" -eq 0 ] || cat "$out/log"; exit "$code"' EXIT
CONAN_HOME=$(cd "$out" && pwd)/home
export CONAN_HOME PYTHONDONTWRITEBYTECODE=1
"$conan" profile detect --force >"$out/log" 2>&1

# system NAME PACKAGE LINE...: exports a recipe for a package of the system; the lines are those of package_info.
system() {
  version=$(dpkg-query -W -f '${source:Upstream-Version}' "$2")
  {
    printf 'from conan import ConanFile\n\n\nclass System(ConanFile):\n    name, version = "%s", "%s"\n\n    def package_info(self):\n' "$1" "$version"
    shift 2
    printf '        %s\n' 'self.cpp_info.bindirs = self.cpp_info.libdirs = self.cpp_info.includedirs = []' "$@"
  } >"$out/system/conanfile.py"
  "$conan" create "$out/system" >>"$out/log" 2>&1
}
property='self.cpp_info.set_property'
system xsimd libxsimd-dev "$property('cmake_file_name', 'xsimd')" "$property('cmake_target_name', 'xsimd')"
system nlohmann_json nlohmann-json3-dev "$property('cmake_file_name', 'nlohmann_json')" \
  "$property('cmake_target_name', 'nlohmann_json::nlohmann_json')"
system pcre2 libpcre2-dev "$property('pkg_config_name', 'libpcre2-8')" "self.cpp_info.system_libs = ['pcre2-8']"
system utf8proc libutf8proc-dev "$property('pkg_config_name', 'libutf8proc')" "self.cpp_info.system_libs = ['utf8proc']"

create() {
  "$conan" create "$root/cmake/conan" --test-folder "$root/tests/consumer/conan" -c tools.cmake.cmake_layout:test_folder="$CONAN_HOME/test" \
    -s compiler.cppstd=20 "$@" >>"$out/log" 2>&1
}
create -o "&:cpu=False" -o "&:files=False"
create
"$conan" list "lazyprune:*"
