#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures how long it takes to build and test a change. Prints one table. The first row is a fresh clone with all tests. For each further row
# the script edits one header, then builds and runs the tests of the header's folder (sh tests/run.sh --only FOLDER). For two headers that many
# files include, it also edits the header again and builds everything. Their processor seconds are those of the build of everything.
#   sh bench/build/run.sh [CMAKE_OPTION...]     e.g. -DLAZYPRUNE_TEST_UNITS=OFF
# The script works in a clone of its own and takes about 25 minutes on two cores.
set -eu
cd "$(dirname "$0")/../.."
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone --quiet . "$clone"
commit=$(git log -1 --format=%h)
cd "$clone"
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER
if [ $# -gt 0 ]; then
  . cmake/packages.sh
  configure build -C cmake/dev.cmake "$@" >log 2>&1
fi

# took COMMAND...: sets `wall` and `cpu`, in seconds. If the command fails, the script ends.
took() {
  wall=$(date +%s)
  times >times.txt # also prints the times of this shell's children; in $(times) a subshell would run it, and a subshell has no children
  "$@" >log 2>&1 || { tail -n 40 log; exit 1; }
  times >>times.txt
  wall=$(($(date +%s) - wall))
  # Lines 2 and 4 are the times of the children: "1m2.34s 0m5.67s".
  cpu=$(awk 'NR % 2 == 0 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); s[NR] += 60 * t[1] + t[2] } } END { printf "%d", s[4] - s[2] }' times.txt)
}

echo "commit $commit, $(getconf _NPROCESSORS_ONLN) cores: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo
echo "| edited | tests of | wall s | everything built, wall s | processor s |"
echo "|---|---|---:|---:|---:|"
took sh tests/run.sh
echo "| (a fresh clone) | all | $wall | | $cpu |"
while read -r header folder everything; do
  touch "include/lazyprune/$header.hpp"
  took sh tests/run.sh --only "$folder"
  if [ -z "$everything" ]; then
    echo "| $header | $folder | $wall | | $cpu |"
    continue
  fi
  only=$wall
  touch "include/lazyprune/$header.hpp"
  took cmake --build build --parallel "$(getconf _NPROCESSORS_ONLN)"
  echo "| $header | $folder | $only | $wall | $cpu |"
done <<END
session/selection session everything
model/transformer model everything
policy/scorer/key_norm policy/scorer
text/jinja/filters text/jinja
text/tokenizer/bpe text/tokenizer
eval/metrics/rouge_l eval/metrics
files/gguf files
backend/cpu/kernels/avx2/product backend/cpu
END
