#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures how fast a program lazyprune is on a busy machine: alone, beside a loop that keeps one processor busy, and beside a second run of
# itself. Prints tokens a second: medians over rounds.
#   sh bench/end_to_end/busy.sh MODEL PROGRAM...
set -eu
[ $# -ge 2 ] || { echo "usage: sh bench/end_to_end/busy.sh MODEL PROGRAM..." >&2; exit 2; }
model=$1
shift
results=$(mktemp)
busy= second= # the processes beside this one
trap 'kill $busy $second 2>/dev/null || true; rm -f "$results" "$results".[12]' EXIT
trap 'exit 1' INT TERM HUP

# measure CASE PROGRAM NUMBER: one run of a dense prefill of 1,024 tokens and of 64 steps after it
measure() {
  "$2" bench -m "$model" -P 1024 -n 64 -r 1 -o csv --policy dense > "$results.$3"
  awk -F, -v name="$1" -v program="$2" 'NR > 1 { gsub(/"/, "", $5); print program "," name "," $5 "," $7 }' "$results.$3" >> "$results"
}

for round in 1 2 3 4 5; do
  for program; do
    measure alone "$program" 1
    while :; do :; done &
    busy=$!
    measure "beside a busy loop" "$program" 1
    kill $busy
    wait $busy 2>/dev/null || true
    busy=
    measure "two at once" "$program" 1 &
    second=$!
    measure "two at once" "$program" 2
    wait $second
    second=
  done
done
sort -t , -k 1,3 -k 4,4n "$results" | awk -F, '
  function median() { if (n) printf "%-60s %-20s %-8s %8.1f\n", program, name, test, (value[int((n + 1) / 2)] + value[int(n / 2) + 1]) / 2 }
  $1 "," $2 "," $3 != key { median(); key = $1 "," $2 "," $3; program = $1; name = $2; test = $3; n = 0 }
  { value[++n] = $4 }
  END { median() }'
