#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures whether Gemma 3 270M finds needles: in 4,000 tokens under the mean over all heads, and in 2,000 tokens under a calibration.
#
#   sh bench/gemma3/run.sh [--accept-gemma-terms]   installs missing packages, fetches the model once (you must agree to Gemma's terms of
#                                                   use), builds, makes the prompts, runs, and writes the tables beside this file
#   BUILD=build   the build folder; prompts and predictions are in its folder gemma3/
#   THREADS=      threads of the runs; by default all that the process may use
#   TABLES=       by default needles and calibrated; TABLES="calibrate calibrated" makes the calibration anew if its file is missing
#
# When the script is interrupted, the next run continues.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh
. cmake/models.sh
. bench/smollm2/calibration.sh

build=${BUILD:-build}
work=$build/gemma3
here=bench/gemma3
calibration=examples/lazyprune/models/known/gemma-3-270m.json # the program's table of known models has it
# The seed of the table `calibrated`: the first eight digits of the hash of the commit that added the calibration, so that nobody could choose it.
judged_seed=1c2023ac
# shellcheck disable=SC2086
install_missing $library_packages python3
fetch_gemma3 "$@"
configure "$build"
build "$build" --target lazyprune.program
mkdir -p "$work"

# samples TOKENS N SEED CHAPTERS TASK...: makes the missing files of samples, and sets $data to the flags that name all files
samples() {
  tokens=$1 n=$2 seed=$3 chapters=$4
  shift 4
  data=
  for task; do
    file=$work/$seed-$tokens-$n-$chapters/$task.jsonl
    if [ ! -f "$file" ]; then
      mkdir -p "${file%/*}"
      python3 bench/smollm2/make_tasks.py "$task" "$tokens" "$n" "$seed" "$file.unfinished" --plain --chapters "$chapters" \
        --program "$build/examples/lazyprune" --model "$gemma3" || fail "$file could not be made"
      mv "$file.unfinished" "$file"
    fi
    data="$data -d $file"
  done
}

# compare NAME FLAG...: runs the program's sweep on $data beside the dense model, and keeps its table beside this file
compare() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$build/examples/lazyprune" sweep --model "$gemma3" $data ${THREADS:+-t "$THREADS"} --resume --out "$work/$name" --methods dense --budgets 1 "$@"
  cp "$work/$name/sweep.csv" "$here/$name.csv"
}

# Only the 6th, 12th and 18th layer attend to all tokens. A stage ranks the tokens by the attention of the layer before it, so the stages come
# after 6 and 12 layers.
in_blocks="--selector blocks:size=32"
for table in ${TABLES:-needles calibrated}; do
  case $table in
    needles)
      samples 4000 20 2026 1-18 niah_single_1 niah_single_2
      compare needles-4000 -n 12 --timed 1 --variant "late=--stages 12:0.1" --variant "tokens=--stages 6:0.3,12:0.3" \
        --variant "blocks=--stages 6:0.3,12:0.3 $in_blocks" --variant "fast_blocks=--stages 6:0.1 $in_blocks"
      ;;
    calibrate)
      # As in bench/smollm2: without labels, on questions that are made out of the novel's first half. The stages are chosen on other questions.
      [ ! -f "$calibration" ] || continue
      python3 bench/smollm2/half_of_novel.py "$work/fitted.txt" "$work/chosen.txt"
      "$build/examples/lazyprune" calibrate --model "$gemma3" -f "$work/fitted.txt" ${THREADS:+-t "$THREADS"} --out "$work/calibration.json"
      data="-f $work/chosen.txt --prompts 48"
      set --
      for stages in 12:0.3 6:0.4,12:0.6 6:0.3 6:0.2; do
        set -- "$@" --variant "$(echo "s$stages" | tr :, __)=--pruning-file $work/calibration.json --stages $stages"
      done
      compare calibrate -n 96 --timed 1 "$@"
      python3 bench/smollm2/choose_stages.py "$here/calibrate.csv" "$work/calibration.json"
      cp "$work/calibration.json" "$calibration"
      ;;
    calibrated)
      # Six needle tasks in the novel's second half. `mean_of_heads` has the same stages and blocks, but the score is the mean over all heads.
      samples 2000 25 $((0x$judged_seed)) 10-18 niah_single_1 niah_single_2 niah_multivalue niah_multiquery niah_single_3 niah_multikey_1
      compare calibrated-2000 -n 48 --timed 2 --variant "calibrated=--pruning-file $calibration" \
        --variant "mean_of_heads=--stages $(of_calibration "$calibration" stages) --decode kept --keep-first 4 \
          --keep-last $(of_calibration "$calibration" keep_last) --selector blocks:size=$(of_calibration "$calibration" block)"
      ;;
    *) fail "TABLES: expected needles, calibrate or calibrated, found $table" ;;
  esac
done
