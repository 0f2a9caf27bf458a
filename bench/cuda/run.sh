#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests and measures the backend cuda on this machine's GPU: the tests with compute-sanitizer if it is installed, the tests, and the tables.
#
#   sh bench/cuda/run.sh               installs missing packages, builds, and writes GPU.csv and GPU.md beside this file
#
#   BUILD=build-cuda                   the build folder; logs and results of each commit are in its folder cuda/
#   STEPS="sanitizer tests tables"     the steps to run
#   SHAPES="llama-2-7b llama-3-8b"     model shapes, with random weights in bf16
#   PROMPTS="1024 2048 3376 4096 8192 16384 32768"   tokens; 3,376 is the paper's average prompt
#   SCHEDULES="drawn 2.3x"             pruning schedules to compare with the dense model; bench/end_to_end/run.sh explains them
#   STAGES=                            stages that replace those of the schedules, for shapes without 32 layers
#   PREDICT=68                         tokens after each prompt; 68 is the paper's average answer
#   REPETITIONS=5                      runs of each cell, after one to warm up
#   OUT=bench/cuda                     the folder for the results
#   PROGRAM= TEST_PROGRAM=             programs to use instead of building them
#   INSTALL=no                         installs nothing
#   PACKAGES=.portable/packages        a folder of packages, made by portable.sh, for a machine that cannot install any
#
# When the script is interrupted, the next run continues with the unfinished tool of the sanitizer or the unfinished table. If a prompt does not
# fit into the GPU's memory, the line of this prompt in the table says so. At a failure the script prints one line and ends.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh
PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin # nvcc and compute-sanitizer

build=${BUILD:-build-cuda}
steps=${STEPS:-sanitizer tests tables}
out=${OUT:-bench/cuda}
program=${PROGRAM:-$build/examples/lazyprune}
test_program=${TEST_PROGRAM:-$build/tests/lazyprune.tests.gpu}

for step in $steps; do
  case $step in
    sanitizer | tests | tables) ;;
    *) fail "STEPS: expected sanitizer, tests or tables, found $step" ;;
  esac
done
targets=
case $steps in *tables*) [ -n "${PROGRAM:-}" ] || targets=lazyprune.program ;; esac
case $steps in *sanitizer* | *tests*) [ -n "${TEST_PROGRAM:-}" ] || targets="$targets lazyprune.tests.gpu" ;; esac

# CUDA uses the first visible GPU.
command -v nvidia-smi >/dev/null || fail "nvidia-smi: expected a machine with an NVIDIA GPU and its driver, found none"
export CUDA_DEVICE_ORDER=PCI_BUS_ID # the order of nvidia-smi
first=${CUDA_VISIBLE_DEVICES:-0}
ask() {
  nvidia-smi -i "${first%%,*}" --query-gpu="$1" --format=csv,noheader 2>/dev/null
}
name=$(ask name) && [ -n "$name" ] || fail "nvidia-smi: expected a GPU, found none"
capability=$(ask compute_cap)
peak=--peak
case $capability in
  8.0 | 9.0) ;;
  8.* | 9.* | 1[0-9].*)
    peak=
    echo "no shares of peaks: they are known for compute capability 8.0 and 9.0, and this GPU has $capability"
    ;;
  *) fail "$name: expected compute capability 8.0 or more, found $capability" ;;
esac

commit=$(git rev-parse --short HEAD 2>/dev/null) || commit=unknown
gpu=$(printf '%s' "$name" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-')
work=$build/cuda/$gpu-$commit
mkdir -p "$work"

if [ -n "$targets" ]; then
  nvcc=$(command -v nvcc) || fail "nvcc: expected CUDA's toolkit 12 or newer, found none"
  # shellcheck disable=SC2086
  [ "${INSTALL:-yes}" = no ] || install_missing $library_packages doctest-dev python3
  if [ -n "${PACKAGES:-}" ]; then
    PACKAGES=$(cd "$PACKAGES" && pwd) || exit
    PKG_CONFIG_PATH=$(find "$PACKAGES" -name pkgconfig | tr '\n' :)
    export CMAKE_PREFIX_PATH="$PACKAGES" PKG_CONFIG_PATH CPATH="$PACKAGES/include"
  fi
  architecture=${capability%.*}${capability#*.}
  [ "$architecture" != 90 ] || architecture=90a # only code for 9.0a has wgmma
  configure "$build" -DLAZYPRUNE_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architecture-real" -DLAZYPRUNE_BUILD_BENCH=OFF
  # shellcheck disable=SC2086
  build "$build" --target $targets
fi
case $steps in *tables*) [ -x "$program" ] || fail "$program: expected a program, found none" ;; esac
case $steps in *sanitizer* | *tests*) [ -x "$test_program" ] || fail "$test_program: expected a program, found none" ;; esac

# The sanitizer checks every access, race and barrier of the kernels in their tests. Whole models would take hours. Each file has a process of its
# own, because some CUDA errors stay until the process ends. Tests provoke errors of the API on purpose, so these are not reported. initcheck
# reports the padding between rows as numbers that were never written. Therefore it checks only two files, and its findings are not failures: their
# log is initcheck.found.
files_of_sanitizer() {
  case $1 in
    initcheck) echo cuda/attention cuda/elementwise ;;
    *) test_files backend ;;
  esac
}

# Prints the test files of a folder that the test program has, relative to the folder and without .test.cpp.
test_files() {
  (cd "tests/$1" && find . -name 'cuda*' -prune -exec find {} -name '*.test.cpp' \;) | sed 's|^\./||; s|\.test\.cpp$||' |
    grep -Evx 'cuda/(device|lists)|cuda_steps' | sort
}

sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed: left out"
    return
  fi
  for tool in memcheck racecheck initcheck synccheck; do
    [ ! -e "$work/$tool.passed" ] && [ ! -e "$work/$tool.found" ] || continue
    echo "compute-sanitizer, $tool"
    : >"$work/$tool.log" # without the output of an interrupted run
    result=passed
    for file in $(files_of_sanitizer $tool); do
      compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$test_program" --source-file="*/tests/backend/$file.test.cpp" \
        >>"$work/$tool.log" 2>&1 || {
        [ $tool = initcheck ] || fail "compute-sanitizer, $tool: expected no finding, found what $work/$tool.log says"
        result=found
        echo "compute-sanitizer, $tool, $file: see $work/$tool.$result"
      }
    done
    mv "$work/$tool.log" "$work/$tool.$result"
  done
}

tests() {
  [ ! -e "$work/tests.passed" ] || return 0
  echo "tests on $name"
  : >"$work/tests.log"
  for folder in backend golden; do
    for file in $(test_files $folder); do
      "$test_program" --source-file="*/tests/$folder/$file.test.cpp" >>"$work/tests.log" 2>&1 || [ $? -eq 77 ] ||
        fail "tests: expected that all of $folder/$file pass, found what $work/tests.log says"
    done
  done
  grep -q 'test cases: *[1-9]' "$work/tests.log" || fail "tests: expected some, found none in $work/tests.log"
  mv "$work/tests.log" "$work/tests.passed"
}

# table SHAPE SCHEDULE: measures all prompts in one process, because making the weights takes a while. If the memory is too small, the longest
# prompt is left out, a file notes it, and the other prompts are measured again.
table() {
  result=$work/tables/$1_$2.json
  [ ! -e "$result" ] || return 0
  case $2 in
    drawn) stages=9:0.7,19:0.7,28:0.7 ;;
    2.3x) stages=9:0.35,19:0.35,28:0.35 ;;
    *) fail "SCHEDULES: expected drawn or 2.3x, found $2" ;;
  esac
  left=$(echo "${PROMPTS:-1024 2048 3376 4096 8192 16384 32768}" | tr ' ' '\n' | sort -n | tr '\n' ' ')
  left=${left% }
  echo "[]" >"$result.unfinished"
  while [ -n "$left" ]; do
    echo "$1, $left tokens, $2"
    code=0
    # shellcheck disable=SC2086
    "$program" bench --backend cuda --random-weights "$1" --dtype bf16 -P "$(echo "$left" | tr ' ' ,)" -n "${PREDICT:-68}" --after-each \
      -r "${REPETITIONS:-5}" $peak --policy lazyllm --stages "${STAGES:-$stages}" -o json >"$result.unfinished" 2>"$work/bench.log" || code=$?
    said=$(tail -n 1 "$work/bench.log")
    case $code,$said in
      0,*) break ;;
      3,*cudaErrorMemoryAllocation* | 3,"lazyprune: memory:"*) ;;
      *) fail "${said:-$program: exit code $code}" ;;
    esac
    echo "[]" >"$result.unfinished"
    echo '{"error": "no room"}' >"$work/tables/$1_$2_${left##* }.json"
    case $left in
      *" "*) left=${left% *} ;;
      *) left= ;;
    esac
  done
  mv "$result.unfinished" "$result"
}

tables() {
  mkdir -p "$work/tables" "$out"
  for shape in ${SHAPES:-llama-2-7b llama-3-8b}; do
    for schedule in ${SCHEDULES:-drawn 2.3x}; do table "$shape" "$schedule"; done
  done
  sanitized=
  for tool in memcheck racecheck initcheck synccheck; do
    [ ! -e "$work/$tool.passed" ] || sanitized="$sanitized $tool"
  done
  found=
  [ ! -e "$work/initcheck.found" ] || found="; initcheck has findings, which must be checked by hand"
  passed="not run on it at this commit"
  [ ! -e "$work/tests.passed" ] || passed=$(awk '/test cases:/ { n += $6 } END { print n " passed" }' "$work/tests.passed")
  python3 bench/cuda/report.py "$work/tables" --gpu "$name" --out "$out/$gpu" --note "commit $commit" \
    --note "driver, memory, highest clock, power limit: $(ask driver_version,memory.total,clocks.max.sm,power.limit)" \
    --note "tests: $passed" --note "compute-sanitizer without a finding:${sanitized:- not run}$found"
  echo "written: $out/$gpu.csv, $out/$gpu.md"
}

for step in $steps; do "$step"; done
