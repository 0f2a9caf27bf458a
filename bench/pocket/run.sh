#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the pocket study: LazyLLM and other methods on 1,001 prompts of 1,000 to 2,000 tokens, for the bundled model's seven tasks.
#
#   sh bench/pocket/run.sh             installs missing packages, builds, makes the prompts, runs, and writes the results beside this file
#
#   BUILD=build                        the build folder; the prompts and all predictions are in its folder pocket/
#   THREADS=                           threads of the runs; by default all that the process may use
#   TABLES="main others search"        the tables to run. main: the paper's tables and figures; others: more methods, on fewer prompts;
#                                      search: a search for stages; calibrate: makes the calibration if its file is missing;
#                                      calibrated: the calibration beside the recommended stages
#   MAIN, OTHERS, SEARCH=143, 40, 40   prompts a task, for each of the first three tables
#
# When the script is interrupted, the next run continues. The results are sweep.csv, report.html, accuracy.svg, others.csv, search.csv,
# search.md, calibrate.csv and calibrated.csv.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh

build=${BUILD:-build}
work=$build/pocket
here=bench/pocket
calibration=examples/lazyprune/models/known/pocket.json # the program's table of known models has it
# The seed of the table `calibrated`: the first eight digits of the hash of the commit that added the calibration, so that nobody could choose it.
judged_seed=d93a3121
# The schedules from which the table `calibrate` chooses.
calibrated_stages="3:0.3,5:0.1 2:0.5,3:0.2 2:0.2 2:0.3,3:0.1 2:0.15,3:0.07 1:0.5,2:0.3"

# make_prompts SEED N TOKENS: makes N prompts for each task, with the lengths in TOKENS, if they are missing. Sets $prompts to their folder
make_prompts() {
  prompts=$work/prompts-$1
  [ ! -d "$prompts" ] || return 0
  rm -rf "$prompts.unfinished"
  python=python3
  "$python" -c 'import sentencepiece' 2>/dev/null || python=/usr/bin/python3 # the package python3-sentencepiece is for this Python
  "$python" examples/pocket/make_prompts.py "$prompts.unfinished" "$2" "$3" "$1"
  mv "$prompts.unfinished" "$prompts"
}

# ask COMMAND NAME PROMPTS FLAG...: runs a sweep or a search on the prompts in $prompts, and writes into the folder $out
ask() {
  command=$1 limit=$3 out=$work/$2-$3
  shift 3
  for file in "$prompts"/*.jsonl; do
    set -- "$@" -d "$file"
  done
  "$build/examples/lazyprune" "$command" -m examples/pocket/model --limit "$limit" ${THREADS:+-t "$THREADS"} --resume --out "$out" "$@" >"$work/table.md"
}

# shellcheck disable=SC2086
install_missing $library_packages python3 python3-sentencepiece
configure "$build"
build "$build" --target lazyprune.program
mkdir -p "$work"

for table in ${TABLES:-main others search}; do
  case $table in
    main | others | search) make_prompts 2024 143 1040,1220,1400,1580,1760,1950 ;; # examples/pocket/prompts has another seed
  esac
  case $table in
    main)
      ask sweep main "${MAIN:-143}" --methods lazyllm,no_revival,dense_decode,static,static@2,random,compression --budgets 0.53,0.6,0.75 --sensitivity 20
      cp "$out/sweep.csv" "$out/report.html" "$out/accuracy.svg" $here/
      ;;
    others)
      ask sweep others "${OTHERS:-40}" --methods lazyllm,lazyllm@2+4,fastkv@2,fastkv@3,gemfilter@2,gemfilter@3,streaming,snapkv,h2o --budgets 0.53,0.6,0.75
      cp "$out/sweep.csv" $here/others.csv
      ;;
    search)
      ask search search "${SEARCH:-40}"
      cp "$out/search.csv" $here/
      cp "$work/table.md" $here/search.md
      cat $here/search.md
      ;;
    calibrate)
      # No labels are used. The weights of the heads are fitted on the documents of other prompts. The dense model's own answers choose the stages.
      [ ! -f "$calibration" ] || continue
      make_prompts 2025 30 1000
      python3 bench/pocket/without_labels.py documents "$prompts" "$work/documents.txt"
      "$build/examples/lazyprune" calibrate -m examples/pocket/model -f "$work/documents.txt" ${THREADS:+-t "$THREADS"} --tokens 1000 \
        --out "$work/calibration.json"
      make_prompts 2026 20 1000,1900
      asked=$prompts prompts=$prompts-answered
      set --
      for file in "$asked"/*.jsonl; do
        set -- "$@" -d "$file"
      done
      "$build/examples/lazyprune" eval -m examples/pocket/model --policy dense ${THREADS:+-t "$THREADS"} "$@" --resume --out "$work/answers.jsonl"
      python3 bench/pocket/without_labels.py answers "$asked" "$work/answers.jsonl" "$prompts"
      set --
      for stages in $calibrated_stages; do
        set -- "$@" --variant "$(echo "s$stages" | tr :, __)=--pruning-file $work/calibration.json --stages $stages"
      done
      ask sweep calibrate 20 --methods dense --budgets 1 --timed 1 "$@"
      set --
      cp "$out/sweep.csv" $here/calibrate.csv
      python3 bench/smollm2/choose_stages.py $here/calibrate.csv "$work/calibration.json"
      cp "$work/calibration.json" "$calibration"
      ;;
    calibrated)
      make_prompts "$((0x$judged_seed))" 50 1000,1900
      ask sweep calibrated 50 --methods dense --budgets 1 --timed 5 --variant "recommended=--stages 3:0.3,5:0.1" \
        --variant "calibrated=--pruning-file $calibration"
      cp "$out/sweep.csv" $here/calibrated.csv
      ;;
    *) fail "TABLES: expected main, others, search, calibrate or calibrated, found $table" ;;
  esac
done
