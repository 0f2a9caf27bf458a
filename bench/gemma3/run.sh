#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures whether Gemma 3 270M finds needles in 4,000 tokens: the dense model and four ways to prune, with 20 samples a task.
#
#   sh bench/gemma3/run.sh [--accept-gemma-terms]   installs missing packages, fetches the model once (you must agree to Gemma's terms of
#                                                   use), builds, makes the prompts, runs, and writes needles-4000.csv beside this file
#   BUILD=build   the build folder; prompts and predictions are in its folder gemma3/
#   THREADS=      threads of the runs; by default all that the process may use
#
# When the script is interrupted, the next run continues.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh
. cmake/models.sh

build=${BUILD:-build}
work=$build/gemma3
# shellcheck disable=SC2086
install_missing $library_packages python3
fetch_gemma3 "$@"
configure "$build"
build "$build" --target lazyprune.program
mkdir -p "$work"

data=
for task in niah_single_1 niah_single_2; do
  file=$work/$task.jsonl
  if [ ! -f "$file" ]; then
    python3 bench/smollm2/make_tasks.py "$task" 4000 20 2026 "$file.unfinished" --plain --program "$build/examples/lazyprune" \
      --model "$gemma3" || fail "$file could not be made"
    mv "$file.unfinished" "$file"
  fi
  data="$data -d $file"
done

# Only the 6th, 12th and 18th layer attend to all tokens. A stage ranks the tokens by the attention of the layer before it, so the stages come
# after 6 and 12 layers.
in_blocks="--selector blocks:size=32"
# shellcheck disable=SC2086
"$build/examples/lazyprune" sweep --model "$gemma3" $data -n 12 ${THREADS:+-t "$THREADS"} --timed 1 --resume --out "$work/needles" \
  --methods dense --budgets 1 --variant "late=--stages 12:0.1" --variant "tokens=--stages 6:0.3,12:0.3" \
  --variant "blocks=--stages 6:0.3,12:0.3 $in_blocks" --variant "fast_blocks=--stages 6:0.1 $in_blocks"
cp "$work/needles/sweep.csv" bench/gemma3/needles-4000.csv
