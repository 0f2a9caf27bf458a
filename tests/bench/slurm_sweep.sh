#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests bench/slurm/sweep.sh without Slurm: the variables that Slurm would set are set here.
#   slurm_sweep.sh PROGRAM
set -eu
LAZYPRUNE=$1
export LAZYPRUNE SLURM_CPUS_PER_TASK=1
source=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# With several jobs the table has no times, so that tables can be compared byte by byte.
set -- eval -d "$source/examples/pocket/prompts/pocket_profile.jsonl" --limit 6 --max-length 200 --stages 3:0.5 -j 2

# task K LAST: runs one task of the array 1-LAST.
task() {
  k=$1 last=$2
  shift 2
  SLURM_ARRAY_TASK_ID=$k SLURM_ARRAY_TASK_MAX=$last sh "$source/bench/slurm/sweep.sh" "$out" "$@"
}
fail() {
  echo "FAILED: $*"
  exit 1
}

"$LAZYPRUNE" "$@" -t 1 -o json >"$out/expected"
for k in 1 2 3; do task $k 3 "$@"; done
"$LAZYPRUNE" merge "$out"/parts/* --out "$out" -o json >"$out/merged"
cmp "$out/expected" "$out/merged" || fail "the parts have another table than one run"
[ "$(cat "$out"/parts/*-of-3/predictions.jsonl | wc -l)" -eq 6 ] || fail "each sample has to be answered once"

PARTS=3 task 2 2 "$@"
[ ! -e "$out/parts/2-of-2" ] || fail "PARTS was ignored"
rm -r "$out/parts/1-of-3"
for k in 1 2; do task $k 2 "$@"; done
[ "$(cat "$out"/parts/*/predictions.jsonl | wc -l)" -eq 6 ] || fail "finished samples were answered again"
"$LAZYPRUNE" merge "$out"/parts/* --out "$out" -o json >"$out/merged"
cmp "$out/expected" "$out/merged" || fail "parts of several numbers have another table than one run"

code=0
sh "$source/bench/slurm/sweep.sh" "$out" "$@" 2>"$out/told" || code=$?
[ $code -eq 2 ] || fail "a start outside of an array has to be refused"
grep "expected a task of an array" "$out/told"
if command -v shellcheck >/dev/null; then shellcheck "$source/bench/slurm/sweep.sh"; fi
