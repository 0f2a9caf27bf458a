#!/bin/sh
# SPDX-License-Identifier: MIT
# The backend cuda on this machine's GPU: the tests under compute-sanitizer where that is installed, the tests, and the tables.
#
#   sh bench/cuda/run.sh               installs what is missing, builds, and writes GPU.csv and GPU.md beside this file
#
#   BUILD=build-cuda                   the folder to build in; logs and results of each commit lie in its folder cuda/
#   STEPS="sanitizer tests tables"     what to run
#   SHAPES="llama-2-7b llama-3-8b"     of random weights in bf16
#   PROMPTS="1024 2048 3376 4096 8192 16384 32768"   tokens; 3,376 is the paper's average prompt
#   SCHEDULES="drawn 2.3x"             of pruning, beside the dense model: what bench/end_to_end/run.sh says of them
#   STAGES=                            in the place of theirs, for shapes that have not 32 layers
#   PREDICT=68                         tokens after each prompt; 68 is the paper's average answer
#   REPETITIONS=5                      of each cell, after one to warm up
#   OUT=bench/cuda                     the folder of the results
#   PROGRAM=                           a program in the place of the one that is built; then nothing is built
#
# Ended at any moment and started again it goes on where it was: a step of the sanitizer, a table's cell. A prompt for which the GPU has no
# room is a line of the table that says so. What fails ends it with one line.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh

build=${BUILD:-build-cuda}
steps=${STEPS:-sanitizer tests tables}
out=${OUT:-bench/cuda}
program=${PROGRAM:-$build/examples/lazyprune}
test_program=$build/tests/lazyprune.tests.gpu

for step in $steps; do
  case $step in
    sanitizer | tests | tables) ;;
    *) fail "STEPS: expected sanitizer, tests or tables, found $step" ;;
  esac
done
[ -z "${PROGRAM:-}" ] || [ "$steps" = tables ] || fail "PROGRAM: expected STEPS=tables with it, found $steps"

# The GPU that CUDA takes is the first of those that are left to it.
command -v nvidia-smi >/dev/null || fail "nvidia-smi: expected a machine with an NVIDIA GPU and its driver, found none"
export CUDA_DEVICE_ORDER=PCI_BUS_ID # as nvidia-smi counts
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
file=$(printf '%s' "$name" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-')
work=$build/cuda/$file-$commit
mkdir -p "$work"

if [ -z "${PROGRAM:-}" ]; then
  nvcc=$(command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || fail "nvcc: expected CUDA's toolkit 12 or newer, found none"
  # shellcheck disable=SC2086
  install_missing $library_packages doctest-dev python3
  configure "$build" -DLAZYPRUNE_CUDA=ON -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="${capability%.*}${capability#*.}" -DLAZYPRUNE_BUILD_BENCH=OFF
  build "$build" --target lazyprune.program lazyprune.tests.gpu
fi
[ -x "$program" ] || fail "$program: expected a program, found none"

# Every access, race, barrier and number of the kernels, in the tests of each; hours in whole models, which are left to the next step.
sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer is not installed: left out"
    return
  fi
  for tool in memcheck racecheck initcheck synccheck; do
    [ ! -e "$work/$tool.passed" ] || continue
    echo "compute-sanitizer, $tool"
    compute-sanitizer --tool $tool --error-exitcode 9 "$test_program" --source-file='*/tests/backend/*' >"$work/$tool.log" 2>&1 ||
      fail "compute-sanitizer, $tool: expected no finding, found what $work/$tool.log says"
    mv "$work/$tool.log" "$work/$tool.passed"
  done
}

tests() {
  [ ! -e "$work/tests.passed" ] || return 0
  echo "tests on $name"
  "$test_program" >"$work/tests.log" 2>&1 || [ $? -eq 77 ] || fail "tests: expected that all pass, found what $work/tests.log says"
  grep -q 'test cases: *[1-9]' "$work/tests.log" || fail "tests: expected some, found none in $work/tests.log"
  mv "$work/tests.log" "$work/tests.passed"
}

# cell SHAPE PROMPT SCHEDULE
cell() {
  result=$work/tables/$1_$2_$3.json
  [ ! -e "$result" ] || return 0
  case $3 in
    drawn) stages=9:0.7,19:0.7,28:0.7 ;;
    2.3x) stages=9:0.35,19:0.35,28:0.35 ;;
    *) fail "SCHEDULES: expected drawn or 2.3x, found $3" ;;
  esac
  echo "$1, $2 tokens, $3"
  code=0
  # shellcheck disable=SC2086
  "$program" bench --backend cuda --random-weights "$1" --dtype bf16 -P "$2" -n "${PREDICT:-68}" -r "${REPETITIONS:-5}" $peak \
    --policy lazyllm --stages "${STAGES:-$stages}" -o json >"$result.unfinished" 2>"$work/bench.log" || code=$?
  said=$(tail -n 1 "$work/bench.log")
  case $code,$said in
    0,*) ;;
    3,*cudaErrorMemoryAllocation* | 3,"lazyprune: memory:"*) echo '{"error": "no room"}' >"$result.unfinished" ;;
    *) fail "${said:-$program: exit code $code}" ;;
  esac
  mv "$result.unfinished" "$result"
}

tables() {
  mkdir -p "$work/tables" "$out"
  for shape in ${SHAPES:-llama-2-7b llama-3-8b}; do
    for schedule in ${SCHEDULES:-drawn 2.3x}; do
      for prompt in ${PROMPTS:-1024 2048 3376 4096 8192 16384 32768}; do cell "$shape" "$prompt" "$schedule"; done
    done
  done
  sanitized=
  for tool in memcheck racecheck initcheck synccheck; do
    [ ! -e "$work/$tool.passed" ] || sanitized="$sanitized $tool"
  done
  passed="not run on it at this commit"
  [ ! -e "$work/tests.passed" ] || passed=$(grep 'test cases:' "$work/tests.passed" | sed 's/^[^:]*: *//')
  python3 bench/cuda/report.py "$work/tables" --gpu "$name" --out "$out/$file" --note "commit $commit" \
    --note "driver, memory, highest clock, power limit: $(ask driver_version,memory.total,clocks.max.sm,power.limit)" \
    --note "tests: $passed" --note "compute-sanitizer without a finding:${sanitized:- not run}"
  echo "written: $out/$file.csv, $out/$file.md"
}

for step in $steps; do "$step"; done
