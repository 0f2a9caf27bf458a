#!/bin/sh
# SPDX-License-Identifier: MIT
# Under each limit of address space (ulimit -v), `lazyprune run` gives the same answer, or ends with exit code 3 and one line that says that
# memory is missing. The smallest limits are those at which the system can still load the program.
#   memory_limit.sh PROGRAM
program=$1
[ "$(uname)" = Linux ] || { echo "skipped: needs Linux"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
ask() { "$program" run -p "The capital of France is" -n 8 2>"$folder/errors"; }
ask >"$folder/expected" || exit 1

answers=0 refusals=0
limit=10000 # KiB
while [ $limit -le 100000 ]; do
  (
    ulimit -v $limit
    exec "$program" run -p "The capital of France is" -n 8 >"$folder/found" 2>"$folder/errors"
  )
  code=$?
  if [ $code -eq 0 ] && cmp -s "$folder/found" "$folder/expected"; then
    answers=$((answers + 1))
  elif [ $code -eq 3 ] && [ "$(grep -c '^lazyprune: .*memory' "$folder/errors")" -eq 1 ]; then
    refusals=$((refusals + 1))
  elif [ $code -ne 127 ]; then # 127: the system's loader could not map the program's libraries
    echo "ulimit -v $limit: exit code $code"
    cat "$folder/errors"
    exit 1
  fi
  limit=$((limit + 3000))
done
echo "$answers answers, $refusals refusals"
[ $answers -gt 0 ] && [ $refusals -gt 0 ]
