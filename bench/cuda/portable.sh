#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the backend cuda on a machine without a GPU, and tests it on a machine without a network.
#
#   sh bench/cuda/portable.sh pack [--build DIR]      here: builds the program and the tests and packs them into .portable/
#   sh bench/cuda/portable.sh correct --out DIR       there: tests the answers, in at most 170 s
#   sh bench/cuda/portable.sh time --out DIR          there: measures the speed, in at most 470 s
#
# `pack` needs nvcc and no GPU. `correct` and `time` need .portable/, the repository's files, a GPU, python3, and libcudart and libcublasLt of the
# CUDA major version of `pack`. The comparisons of `time` also need torch and transformers. `python3 bench/cuda/portable_steps.py --help` shows the
# flags of `correct` and `time`.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh

# Prints the libraries that the packed programs need and that another machine may lack. The C library and the CUDA toolkit are not packed.
small_libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcu[^/]*|libnv[^/]*)\.so' || true
}

# pack_packages FOLDER PACKAGE...: copies the headers, libraries, CMake files and pkg-config files of Debian packages, laid out as in /usr.
pack_packages() {
  folder=$1
  shift
  for package; do
    dpkg -L "$package" 2>/dev/null | while read -r file; do
      [ -f "$file" ] || continue
      case $file in
        /usr/include/* | *.cmake | *.pc | */libpcre2-8.so | */libutf8proc.so) ;;
        *) continue ;;
      esac
      to=$folder/${file#/usr/}
      mkdir -p "$(dirname "$to")"
      cp -L "$file" "$to"
      case $file in *.pc) sed -i "s|^prefix=.*|prefix=$(pc_prefix "$file")|" "$to" ;; esac
    done
  done
}

# pc_prefix FILE: prints the prefix for a pkg-config file in lib/ARCHITECTURE/pkgconfig or share/pkgconfig, relative to the file.
pc_prefix() {
  case $1 in
    /usr/lib/*/pkgconfig/*) echo '${pcfiledir}/../../..' ;;
    *) echo '${pcfiledir}/../..' ;;
  esac
}

# Copies the traces that the tests on the GPU read, and the models that these name.
pack_data() {
  models=$(grep -ho '"model": *"models/[^"]*"' "$LAZYPRUNE_TEST_DATA"/traces/*.json | cut -d'"' -f4 | sort -u)
  for folder in traces $models; do
    mkdir -p ".portable/data/$folder"
    cp -RL "$LAZYPRUNE_TEST_DATA/$folder/." ".portable/data/$folder"
  done
  rm -f .portable/data/models/*/ref64_* .portable/data/models/*/*/ref64_* # recorded logits, which these tests do not read
}

pack() {
  build=build-portable
  case $# in
    0) ;;
    2) [ "$1" = --build ] || fail "portable.sh pack: expected --build DIR, found $1"; build=$2 ;;
    *) fail "portable.sh pack: expected --build DIR or nothing, found $*" ;;
  esac
  nvcc=$(command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || fail "nvcc: expected CUDA's toolkit 12 or newer, found none"
  configure "$build" -C cmake/dev.cmake -DLAZYPRUNE_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90a-real \
    -DLAZYPRUNE_TEST_SOURCE_DIR=. -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc"
  build "$build" --target lazyprune.program lazyprune.tests.gpu

  rm -rf .portable
  mkdir -p .portable/lib
  strip -o .portable/lazyprune "$build/examples/lazyprune"
  strip -o .portable/lazyprune.tests.gpu "$build/tests/lazyprune.tests.gpu"
  for library in $(small_libraries .portable/lazyprune .portable/lazyprune.tests.gpu); do cp -L "$library" .portable/lib; done
  pack_packages .portable/packages libxsimd-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev doctest-dev
  [ -z "${LAZYPRUNE_TEST_DATA:-}" ] || pack_data
  commit=$(git rev-parse --short HEAD 2>/dev/null) || commit=unknown
  git diff --quiet HEAD 2>/dev/null || commit="$commit with changes"
  echo "$commit" >.portable/commit
  kib=$(du -sk .portable | cut -f1)
  [ "$kib" -le 40960 ] || fail ".portable: expected 40 MiB at most, found $kib KiB"
  echo "packed: .portable, $kib KiB"
}

task=${1-}
case $task in
  pack) shift; pack "$@" ;;
  correct | time) exec python3 -B bench/cuda/portable_steps.py "$@" ;;
  *) fail "portable.sh: expected pack, correct or time, found ${task:-nothing}" ;;
esac
