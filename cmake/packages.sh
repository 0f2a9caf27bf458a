# SPDX-License-Identifier: MIT
# Shared functions of the scripts that users run: install packages, configure, build, test. The names of packages are those of
# Debian and Ubuntu. POSIX sh, to be sourced.

library_packages="cmake g++ make libxsimd-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev libboost-dev pkg-config"
test_packages="$library_packages doctest-dev libbenchmark-dev libeigen3-dev libsentencepiece-dev python3-numpy valgrind"
clang_packages="clang libclang-rt-dev libomp-dev"
arm64_packages="g++-aarch64-linux-gnu qemu-user"

fail() {
  echo "error: $*" >&2
  exit 1
}

# install_missing PACKAGE...: installs the packages that are missing. If all are installed, the network is not used.
install_missing() {
  if ! command -v apt-get >/dev/null; then
    echo "there is no apt-get here. Install these packages yourself if they are missing (their names may differ): $*"
    return
  fi
  missing=
  for package; do
    dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0

  echo "installing:$missing"
  sudo=
  [ "$(id -u)" -eq 0 ] || sudo=sudo
  $sudo apt-get -q update || echo "could not update the package lists: using the old ones"
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing || fail "could not install:$missing"
}

# configure FOLDER OPTION...: configures FOLDER for Ninja if it is installed, otherwise for make. If FOLDER was configured before, its
# generator and cache stay.
configure() {
  folder=$1
  shift
  if command -v ninja >/dev/null; then
    export CMAKE_GENERATOR=Ninja
  fi
  cmake -S . -B "$folder" "$@" || fail "$folder could not be configured"
}

# build FOLDER OPTION...: builds with as many jobs as there are processors.
build() {
  folder=$1
  shift
  cmake --build "$folder" --parallel "$(getconf _NPROCESSORS_ONLN)" "$@" || fail "$folder could not be built"
}

# run_tests FOLDER OPTION...: runs the tests. Then prints what the skipped tests need, each time with the number of tests that need it. The
# last line says how many tests passed, failed and were skipped. Fails if a test failed.
run_tests() {
  folder=$(cd "$1" && pwd)
  shift
  code=0
  ctest --test-dir "$folder" --output-on-failure --no-tests=error --timeout 600 --parallel "$(getconf _NPROCESSORS_ONLN)" \
    --output-log "$folder/tests.log" "$@" || code=$?
  echo
  sed -n 's/^skipped: needs //p' "$folder/Testing/Temporary/LastTest.log" | sort | uniq -c | sort -rn | sed '1i\
Skipped tests, and what they need:'
  # ctest ends with a line like this one, in which skipped tests count as passed: "98% tests passed, 1 tests failed out of 60".
  awk -v code=$code '/^[0-9]+% tests passed, [0-9]+ tests failed out of / { failed = $4; passed = $NF - $4 }
                     /^\t *[0-9]+ - .* \(Skipped\)$/ { skipped++ }
                     END { if (code && !failed) failed = 1
                           print passed - skipped " passed, " failed + 0 " failed, " skipped + 0 " skipped" }' "$folder/tests.log"
  return "$code"
}
