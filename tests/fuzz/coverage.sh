#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a fuzz target once for each input, and prints the shares of lines and branches that it reaches of the files that it is for. The table in
# tests/README.md lists these files, and the least shares in percent. Fails if less is reached. The target must be built with
# -DLAZYPRUNE_FUZZ_COVERAGE=ON:
#   sh tests/fuzz/coverage.sh build/tests/fuzz/lazyprune.fuzz.gguf FOLDER...
set -u
program=$1
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
name=${program##*.fuzz.}
counts=$(mktemp)
trap 'rm -f "$counts" "$counts.raw"' EXIT

LLVM_PROFILE_FILE=$counts.raw "$program" -runs=0 -rss_limit_mb=2048 "$@" 2>"$counts" || { cat "$counts" >&2; exit 1; }
llvm-profdata merge -sparse "$counts.raw" -o "$counts" || exit

# A row is: | `TARGET` | `FILE` | LINES | BRANCHES |
rows=$(sed -n "s/^| \`$name\` | \`\(.*\)\` | \([0-9]*\) | \([0-9]*\) |$/\1 \2 \3/p" "$root/tests/README.md")
[ -n "$rows" ] || { echo "tests/README.md lists no file for the fuzz target $name" >&2; exit 1; }
echo "$rows" | {
  code=0
  while read -r file lines branches; do
    # The last line has: name, regions, functions, lines and branches, each with the number of all, the number of missed ones, and the share.
    llvm-cov report "$program" -instr-profile="$counts" "$root/$file" | tail -n 1 |
      awk -v target="$name" -v file="$file" -v lines="$lines" -v branches="$branches" '{
        printf "%s: %s: %s of the lines (at least %d %%), %s of the branches (at least %d %%)\n", target, file, $10, lines, $13, branches
        exit $10 + 0 < lines + 0 || $13 + 0 < branches + 0 }' || code=1
  done
  exit $code
}
