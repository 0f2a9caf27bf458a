#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the pocket study: LazyLLM and other methods on 1,001 prompts of 1,000 to 2,000 tokens, for the bundled model's seven tasks.
#
#   sh bench/pocket/run.sh             installs missing packages, builds, makes the prompts, runs, and writes the results beside this file
#
#   BUILD=build                        the build folder; the prompts and all predictions are in its folder pocket/
#   THREADS=                           threads of the runs; by default all that the process may use
#   TABLES="main others search"        the tables to run. main: the paper's tables and figures; others: more methods, on fewer prompts;
#                                      search: a search for stages
#   MAIN, OTHERS, SEARCH=143, 40, 40   prompts a task, for each of the three tables
#
# When the script is interrupted, the next run continues. The results are sweep.csv, report.html, accuracy.svg, others.csv, search.csv and
# search.md.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh

build=${BUILD:-build}
work=$build/pocket
here=bench/pocket
seed=2024 # the prompts in examples/pocket/prompts have another seed

# ask COMMAND NAME PROMPTS FLAG...: runs a sweep or a search, and writes into the folder $out
ask() {
  command=$1 limit=$3 out=$work/$2-$3
  shift 3
  for file in "$work"/prompts/*.jsonl; do
    set -- "$@" -d "$file"
  done
  "$build/examples/lazyprune" "$command" -m examples/pocket/model --limit "$limit" ${THREADS:+-t "$THREADS"} --resume --out "$out" "$@" >"$work/table.md"
}

# shellcheck disable=SC2086
install_missing $library_packages python3 python3-sentencepiece
configure "$build"
build "$build" --target lazyprune.program

if [ ! -d "$work/prompts" ]; then
  rm -rf "$work/prompts.unfinished"
  python=python3
  "$python" -c 'import sentencepiece' 2>/dev/null || python=/usr/bin/python3 # the package python3-sentencepiece is for this Python
  "$python" examples/pocket/make_prompts.py "$work/prompts.unfinished" 143 1040,1220,1400,1580,1760,1950 $seed
  mv "$work/prompts.unfinished" "$work/prompts"
fi

for table in ${TABLES:-main others search}; do
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
    *) fail "TABLES: expected main, others or search, found $table" ;;
  esac
done
