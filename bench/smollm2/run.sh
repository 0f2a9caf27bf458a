#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the study on a real language model: LazyLLM and other methods on SmolLM2-135M-Instruct.
#
#   sh bench/smollm2/run.sh [--quick]  installs missing packages, fetches the model once, builds, makes the prompts, runs, and writes the
#                                      results beside this file. --quick: most tables with one sample a task, to test the script. The results
#                                      stay in the build folder
#
#   BUILD=build                        the build folder; prompts and predictions are in its folder smollm2/
#   THREADS=                           threads of the runs; by default all that the process may use
#   MINUTES=88                         no sample begins after so many minutes, so that the script ends within 90. Each table gets a share of
#                                      the time that is left. A table runs the first sample of every task, then the second, and so on. If its
#                                      time runs out, it has the samples that were answered. The script's last line names the unfinished
#                                      tables. 0: no limit
#   TABLES="headline methods search lengths"
#                                      the tables to run. There are also search_blocks, search_2000, search_blocks_2000, searched, tokens,
#                                      blocks, gentle, others, protected, compositions, tasks, depth, fidelity, conversations, calibrate,
#                                      calibrated, quantized, calibrated_conversations and baselines. Tables that are named here run to their end;
#                                      MINUTES does not apply
#
# When the script is interrupted or out of time, the next run continues. Only fidelity starts an unfinished file from the beginning.
set -eu
cd "$(dirname "$0")/../.."
. cmake/packages.sh
. cmake/models.sh
. bench/smollm2/calibration.sh

build=${BUILD:-build}
work=$build/smollm2
here=bench/smollm2
calibration=examples/lazyprune/models/known/SmolLM2-135M-Instruct.json # the program's table of known models has it
few=1
case ${1:-} in
  --quick)
    few=100
    work=$build/smollm2-quick
    here=$work/results
    calibration=$here/calibration.json
    mkdir -p "$here"
    ;;
  '') ;;
  *) fail "expected --quick or nothing, found $1" ;;
esac

# In these needle tasks the dense model finds at least half of the needles at 2,000 tokens (see the table `tasks`). The study was made with the
# four of `needles`. The two of `other_needles` turned out later to be the hardest to prune.
needles="niah_single_1 niah_single_2 niah_multivalue niah_multiquery"
other_needles="niah_single_3 niah_multikey_1"
all_tasks="$needles $other_needles niah_multikey_2 niah_multikey_3 vt cwe fwe qa_1 quote_sentence repeat_lines"
# Schedules that keep single tokens. `recommended` has the stages that the table search_2000 found. `one_stage` was
# chosen by hand, and `harder` prunes more. `fast` has the speedup that the paper reports (2.34x). It prunes only the prompt and decodes densely.
# The step after the first token must therefore compute all rows that were left out.
recommended="--stages 18:0.7,21:0.2,28:0.05"
one_stage="--stages 21:0.3"
harder="--stages 18:0.5,21:0.3"
fast="--stages 9:0.5,15:0.1 --decode dense"
# The stages that the table search found at 1,000 tokens, and the same stages two layers later.
searched="--stages 18:0.2,21:0.7,25:0.3"
later="--stages 20:0.2,23:0.7,27:0.3"
# Schedules that keep blocks, as the preset lazyllm_blocks does. They lose fewer answers, so they can prune more.
in_blocks="--selector blocks:size=32"
blocks="--stages 15:0.3 $in_blocks"
fast_blocks="$fast $in_blocks"
gentle_blocks="--stages 18:0.2 $in_blocks"
faster_blocks="--stages 6:0.5,15:0.1 --decode dense $in_blocks"
# `drawn` is the schedule of the paper's Figure 4. The three schedules *_for_six are `drawn`, `recommended` and `one_stage`, moved to the six layers
# of the bundled model: each stage comes after the same share of the layers. If two stages come after the same layer, their shares are multiplied.
# A stage after the last layer is left out.
drawn="--stages 9:0.7,18:0.7,27:0.7"
drawn_for_six="--stages 2:0.7,4:0.7,5:0.7"
recommended_for_six="--stages 4:0.14"
one_stage_for_six="--stages 4:0.3"

# Methods that are compared at the same number of computed rows.
methods=lazyllm@15,no_revival@15,dense_decode@15,static@15,random,compression,streaming,snapkv,gemfilter@15,fastkv@15,given@8

began=$(date +%s)
minutes=${MINUTES:-88}
case $minutes in *[!0-9]*) fail "MINUTES: expected a whole number, found $minutes" ;; esac
[ -z "${TABLES:-}" ] || minutes=0
shares=100 # the shares of the time that no table has yet; see within
not_whole=

answer=48 # tokens at most, enough for four numbers
types="--dtype bf16" # the study was made when the program still widened the weights of this file
seed=2026
making= # more flags of make_tasks.py
# The seed of the table `calibrated`: the first eight digits of the hash of the commit that added the calibration, so that nobody could choose it.
judged_seed=dcc2c8a7
# The schedules from which the table `calibrate` chooses, the gentlest first.
calibrated_stages="12:0.3 9:0.5,12:0.5 6:0.6,9:0.5 6:0.55,9:0.45"

# share N [LEAST]: prints N, or with --quick N / 100, and at least LEAST (1)
share() {
  of_few=$((($1 + few - 1) / few))
  echo $((of_few > ${2:-1} ? of_few : ${2:-1}))
}

# within SHARE: limits the next command to SHARE / $shares of the time that is left
within() {
  [ "$minutes" -gt 0 ] || return 0
  limit=$(LC_ALL=C awk -v left=$((began + minutes * 60 - $(date +%s))) -v share="$1" -v shares="$shares" \
    'BEGIN { limit = left / 60 * share / shares; print(limit > 0 ? limit : 0.001) }')
  shares=$((shares - $1))
}

# samples TOKENS N TASK...: makes the missing files of samples, and sets $data to the flags that name all files
samples() {
  tokens=$1 n=$2
  shift 2
  data=
  for task; do
    file=$work/prompts/$seed-$tokens-$n$(echo "$making" | tr -d ' ')/$task.jsonl
    if [ ! -f "$file" ]; then
      mkdir -p "${file%/*}"
      # shellcheck disable=SC2086
      python3 bench/smollm2/make_tasks.py "$task" "$tokens" "$n" "$seed" "$file.unfinished" --program "$build/examples/lazyprune" \
        --model "$smollm2" $making || fail "$file could not be made"
      mv "$file.unfinished" "$file"
    fi
    data="$data -d $file"
  done
}

# sum WORD...: prints a checksum of the words, and of the calibrations if the words name one
sum() {
  case "$*" in
    *--pruning-file*) echo "$*" | cat - "$calibration" "$work/calibration.json" 2>/dev/null ;;
    *) echo "$*" ;;
  esac | cksum | cut -d' ' -f1
}

# lazyprune COMMAND NAME FLAG...: runs the program on the samples, and writes into the folder $out. Other flags have another folder
lazyprune() {
  command=$1 out=$work/$2-$(sum "$answer" "$data" "$types" "$@")
  shift 2
  # shellcheck disable=SC2086
  "$build/examples/lazyprune" "$command" --model "$smollm2" $data --chat template -n "$answer" $types ${THREADS:+-t "$THREADS"} --resume \
    --minutes "$limit" --out "$out" "$@" >"$out.md"
  for file in "$out"/*.unfinished; do
    [ ! -f "$file" ] || not_whole="$not_whole ${out#"$work/"}"
  done
}

# compare NAME TIMED SETTING...: compares settings (NAME=FLAGS) with the dense model; times the first TIMED samples of each task
compare() {
  name=$1 timed=$2
  shift 2
  for setting; do
    set -- "$@" --variant "$setting"
    shift
  done
  lazyprune sweep "$name" --methods dense --budgets 1 --timed "$timed" "$@"
}

# beside_dense NAME TIMED SETTING...: does the same, and keeps the table beside this file
beside_dense() {
  compare "$@"
  cp "$out/sweep.csv" "$here/$1.csv"
}

# converse TABLE N NAME=FLAGS...: holds N conversations under each setting, and writes TABLE.csv beside this file
converse() {
  name=$1 asked="2000 $2 2026"
  shift 2
  for setting; do
    set -- "$@" --setting "$setting $types"
    shift
  done
  made=$work/$name-$(sum "$(cat bench/smollm2/conversations.py)" "$asked" "$@").csv
  if [ ! -f "$made" ]; then
    # shellcheck disable=SC2086
    python3 bench/smollm2/conversations.py $asked "$made" --program "$build/examples/lazyprune" --model "$smollm2" \
      ${THREADS:+-t "$THREADS"} "$@"
  fi
  cp "$made" "$here/$name.csv"
}

# continue_novel NAME TOKENS FLAG...: compares the text that follows TOKENS tokens of the novel, at 20 places, and keeps the table beside this file
continue_novel() {
  name=$1 tokens=$2
  shift 2
  set -- --places "$(share 20)" --prefix "$tokens" -n 128 --budgets 0.65 "$@"
  made=$work/fidelity-$(sum "$@").csv
  if [ ! -f "$made" ]; then
    # shellcheck disable=SC2086
    "$build/examples/lazyprune" fidelity --model "$smollm2" -f bench/smollm2/haystack.txt $types ${THREADS:+-t "$THREADS"} -o csv "$@" \
      >"$made.unfinished"
    mv "$made.unfinished" "$made"
  fi
  cp "$made" "$here/$name-$tokens.csv"
}

# search_stages FLAG...: searches, on one half of the samples, for at most three stages with a loss that is certain to be small. If the table's name
# begins with search_blocks, the stages prune blocks
search_stages() {
  name=$(echo "$table" | tr _ -)
  # shellcheck disable=SC2086
  case $table in search_blocks*) set -- "$@" $in_blocks ;; esac
  lazyprune search "$name" --scorer last_query_attention --certain --most-stages 3 "$@"
  cp "$out/search.csv" "$here/$name.csv"
  cp "$out.md" "$here/$name.md"
}

# shellcheck disable=SC2086
install_missing $library_packages python3
fetch_smollm2
configure "$build"
build "$build" --target lazyprune.program
mkdir -p "$work"

unasked="headline methods search lengths"
[ "$few" -eq 1 ] || unasked="$unasked tasks depth fidelity conversations"
for table in ${TABLES:-$unasked}; do
  limit=0
  case $table in
    headline | gentle)
      first="recommended=$recommended"
      [ "$table" = headline ] || first="gentle_blocks=$gentle_blocks"
      # shellcheck disable=SC2086
      samples 2000 "$(share 100)" $needles
      within 29
      beside_dense "$table-2000" 5 "$first" "fast_blocks=$fast_blocks"
      # shellcheck disable=SC2086
      samples 4000 "$(share 100)" ${needles% *}
      within 36
      beside_dense "$table-4000" 4 "$first" "fast_blocks=$fast_blocks"
      # The dense model finds less than half of the last task's needles at 4,000 tokens. Therefore this task has a table of its own and counts in
      # no mean.
      samples 4000 "$(share 100)" "${needles##* }"
      within 7
      beside_dense "$table-4000-four-keys" 2 "$first" "fast_blocks=$fast_blocks"
      ;;
    tokens)
      # shellcheck disable=SC2086
      samples 2000 "$(share 100)" $needles
      beside_dense tokens-2000 10 "one_stage=$one_stage" "harder=$harder" "fast=$fast"
      # shellcheck disable=SC2086
      samples 4000 "$(share 30)" $needles
      beside_dense tokens-4000 3 "one_stage=$one_stage" "harder=$harder" "fast=$fast"
      ;;
    searched)
      # shellcheck disable=SC2086
      samples 2000 "$(share 100)" $needles
      beside_dense searched-2000 3 "searched=$searched" "later=$later"
      ;;
    blocks)
      # shellcheck disable=SC2086
      samples 2000 "$(share 100)" $needles
      beside_dense blocks-2000 5 "blocks=$blocks" "fast_blocks=$fast_blocks"
      # shellcheck disable=SC2086
      samples 4000 "$(share 50)" ${needles% *}
      beside_dense blocks-4000 4 "blocks=$blocks" "fast_blocks=$fast_blocks"
      ;;
    others)
      # shellcheck disable=SC2086
      samples 2000 "$(share 100)" $other_needles
      beside_dense others-recommended 2 "recommended=$recommended"
      # shellcheck disable=SC2086
      samples 2000 "$(share 40)" $other_needles
      beside_dense others-2000 2 "one_stage=$one_stage" "gentle_blocks=$gentle_blocks" "fast_blocks=$fast_blocks"
      ;;
    protected) # every method keeps the chat's first tokens and its question
      # shellcheck disable=SC2086
      samples 2000 "$(share 15)" $needles
      lazyprune sweep protected --budgets 0.65 --seeds 1 --timed 1 --keep-first 4 --keep-last 48 --methods "$methods" \
        --variant 'blocks@15=--selector blocks:size=16'
      cp "$out/sweep.csv" "$here/protected.csv"
      ;;
    compositions)
      # shellcheck disable=SC2086
      samples 2000 "$(share 15)" $needles
      lazyprune sweep compositions --methods lazyllm@15 --budgets 0.65 --timed 2 --variant "blocks=$blocks" \
        --variant "values=$blocks --scorer value_weighted_attention" --variant "last8=$blocks --scorer window_attention:window=8,kernel=1" \
        --variant "question=$blocks --keep-first 4 --keep-last 48" --variant "faster=$faster_blocks"
      cp "$out/sweep.csv" "$here/compositions.csv"
      ;;
    calibrate)
      # A calibration without labels, for the program's table of known models. It is fitted on questions that are made out of the first two
      # thirds of the novel's first half, and its stages are chosen on questions out of the last third.
      [ ! -f "$calibration" ] || continue
      python3 bench/smollm2/half_of_novel.py "$work/fitted.txt" "$work/chosen.txt"
      # shellcheck disable=SC2086
      "$build/examples/lazyprune" calibrate --model "$smollm2" -f "$work/fitted.txt" $types ${THREADS:+-t "$THREADS"} --prompts "$(share 240 10)" \
        --out "$work/calibration.json"
      data="-f $work/chosen.txt --prompts $(share 48 8)" answer=96 # four values may be as long
      set --
      for stages in $calibrated_stages; do
        set -- "$@" "$(echo "s$stages" | tr :, __)=--pruning-file $work/calibration.json --stages $stages"
      done
      compare calibrate 1 "$@"
      cp "$out/sweep.csv" "$here/calibrate.csv"
      python3 bench/smollm2/choose_stages.py "$out/sweep.csv" "$work/calibration.json"
      cp "$work/calibration.json" "$calibration"
      answer=48
      ;;
    calibrated)
      # The calibration, which saw none of these tasks, is judged in the novel's second half, in RULER's wording and reworded. `gently` has the
      # gentlest of the stages that were tried.
      seed=$((0x$judged_seed))
      flags="--pruning-file $calibration"
      gentle_flags="$flags --stages ${calibrated_stages%% *}"
      making="--chapters 10-18"
      # shellcheck disable=SC2086
      samples 2000 "$(share 50)" $needles $other_needles
      beside_dense calibrated-ruler-2000 5 "calibrated=$flags" "gently=$gentle_flags"
      # shellcheck disable=SC2086
      samples 4000 "$(share 50)" $needles $other_needles
      beside_dense calibrated-ruler-4000 2 "calibrated=$flags"
      making="$making --reworded"
      # shellcheck disable=SC2086
      samples 2000 "$(share 25)" $needles $other_needles
      beside_dense calibrated-reworded-2000 2 "calibrated=$flags"
      making="--chapters 10-18"
      answer=96 # six lines may be as long
      samples 2000 "$(share 25)" quote_sentence repeat_lines
      beside_dense calibrated-quotes-2000 2 "calibrated=$flags"
      answer=48
      continue_novel calibrated-fidelity 2000 --variant "calibrated=$flags"
      seed=2026 making=
      ;;
    quantized)
      # The first samples of the table `calibrated`, with weights as the file has them and activations in 8 bits, as the program computes today.
      types=
      seed=$((0x$judged_seed)) making="--chapters 10-18"
      # shellcheck disable=SC2086
      samples 2000 "$(share 50)" $needles $other_needles
      beside_dense calibrated-quantized-2000 5 "calibrated=--pruning-file $calibration"
      types="--dtype bf16" seed=2026 making=
      ;;
    calibrated_conversations)
      converse calibrated-conversations "$(share 300)" "dense=--policy dense" \
        "calibrated=--pruning-file $calibration --least-tokens 0" "fast_blocks=$fast_blocks"
      ;;
    baselines)
      # Other methods with as many rows as the calibration, on the first samples of the table `calibrated`. All keep the first 4
      # tokens, and as many last ones as the calibration. The layers after which some of them prune are chosen on the questions that chose the
      # calibration's stages. `mean_of_heads` has the stages and blocks of the calibration, but its score is the mean over all heads, as in the
      # paper.
      seed=$((0x$judged_seed))
      stages=$(of_calibration "$calibration" stages) last=$(of_calibration "$calibration" keep_last)
      rows=$(awk -v of_stages="$stages" 'BEGIN { kept = 1; layers = 30
        count = split(of_stages, stage, ","); for (i = 1; i <= count; ++i) { split(stage[i], part, ":")
        rows += kept * (part[1] - before); before = part[1]; kept *= part[2] }
        print((rows + kept * (layers - before)) / layers) }')
      python3 bench/smollm2/half_of_novel.py "$work/fitted.txt" "$work/chosen.txt"
      data="-f $work/chosen.txt --prompts $(share 48 8)"
      lazyprune sweep baselines-layers --budgets "$rows" --timed 1 --keep-first 4 --keep-last "$last" \
        --methods fastkv@6,fastkv@9,fastkv@12,gemfilter@6,gemfilter@9,gemfilter@12,given@6,given@9
      chosen=$(python3 bench/smollm2/best_layers.py "$out/sweep.csv")
      cp "$out/sweep.csv" "$here/baselines-layers.csv"
      making="--chapters 10-18"
      # shellcheck disable=SC2086
      samples 2000 "$(share 50)" $needles $other_needles
      data="$data --limit $(share 15)"
      lazyprune sweep baselines --budgets "$rows" --seeds 1 --timed 2 --keep-first 4 --keep-last "$last" \
        --methods "$chosen,snapkv,streaming,random" --variant "calibrated=--pruning-file $calibration" \
        --variant "mean_of_heads=--stages $stages --selector blocks:size=$(of_calibration "$calibration" block) --decode kept"
      cp "$out/sweep.csv" "$here/baselines.csv"
      # `retrieval_heads` scores by the retrieval heads of the first 9 layers (a score above 0.1), with equal weights. The first 6 layers have
      # none. So it prunes once, after 9 layers, and computes as many rows as the calibration.
      probes=$(awk -F, 'NR > 1 && $1 < 9 && $3 > 0.1 { printf "%s9.%s.%s.last.max@1", between, $1, $2; between = "/" }' \
        bench/smollm2/retrieval-heads.csv)
      block=$(of_calibration "$calibration" block)
      lazyprune sweep baselines-heads --methods dense --budgets 1 --timed 2 --keep-first 4 --keep-last "$last" \
        --variant "retrieval_heads=--stages 9:$(awk -v rows="$rows" 'BEGIN { print((rows * 30 - 9) / 21) }') --decode kept \
          --scorer calibrated_attention:window=64,block=$block,following=3,probes=$probes --selector blocks:size=$block"
      cp "$out/sweep.csv" "$here/baselines-heads.csv"
      seed=2026 making=
      ;;
    lengths)
      # shellcheck disable=SC2086
      samples 1000 "$(share 15)" $needles
      within 3
      beside_dense length-1000 2 "recommended=$recommended" "fast_blocks=$fast_blocks"
      [ "$few" -eq 1 ] || continue # a sample takes a minute on a processor with only AVX2
      # shellcheck disable=SC2086
      samples 7500 "$(share 15)" $needles
      within 5
      beside_dense length-7500 1 "recommended=$recommended" "fast_blocks=$fast_blocks"
      ;;
    tasks)
      answer=0 # 0: each answer is limited as in RULER
      # shellcheck disable=SC2086
      samples 2000 "$(share 5)" $all_tasks
      beside_dense tasks-2000 1 "blocks=$blocks" "fast_blocks=$fast_blocks"
      answer=48
      ;;
    methods)
      # shellcheck disable=SC2086
      samples 2000 "$(share 15)" $needles
      within 12
      lazyprune sweep methods --budgets 0.65 --seeds 1 --timed 3 \
        --methods "$methods" \
        --variant 'summed@15=--scorer accumulated_attention:since=step' \
        --variant 'last8@15=--scorer window_attention:window=8,kernel=1' \
        --variant 'values@15=--scorer value_weighted_attention' \
        --variant 'blocks@15=--selector blocks:size=16' \
        --variant 'question@15=--keep-first 4 --keep-last 48' \
        --variant "drawn=$drawn" --variant "one_stage=$one_stage"
      cp "$out/report.html" "$out/accuracy.svg" "$here/"
      cp "$out/sweep.csv" "$here/methods.csv"
      ;;
    search | search_blocks)
      # shellcheck disable=SC2086
      samples 1000 "$(share 10 2)" $needles # the search uses one half of the samples, and the other half tests its result
      within 8
      search_stages --tries "$(share 60 10)"
      ;;
    search_2000 | search_blocks_2000)
      seed=2027 # the headline's samples test the result, so the search uses others
      # shellcheck disable=SC2086
      samples 2000 "$(share 20 2)" $needles $other_needles
      search_stages --tries "$(share 40 10)" --max-loss 2
      seed=2026
      ;;
    depth)
      # Runs the bundled model with schedules that were made for other models.
      set --
      for file in examples/pocket/prompts/pocket_*.jsonl; do
        set -- "$@" -d "$file"
      done
      set -- "$@" --limit "$(share 30)" --methods dense --budgets 1 --variant "drawn=$drawn_for_six" \
        --variant "recommended=$recommended_for_six" --variant "one_stage=$one_stage_for_six"
      out=$work/depth-$(sum "$@")
      "$build/examples/lazyprune" sweep -m examples/pocket/model "$@" ${THREADS:+-t "$THREADS"} --resume --out "$out" >"$out.md"
      cp "$out/sweep.csv" "$here/depth.csv"
      ;;
    fidelity)
      for tokens in 2000 4000; do
        # Leaves out dense_decode, because fast_blocks also decodes densely.
        continue_novel fidelity "$tokens" --methods "$(echo "$methods" | sed 's/,dense_decode@15//')" \
          --variant "recommended=$recommended" --variant "one_stage=$one_stage" --variant "blocks=$blocks" \
          --variant "fast_blocks=$fast_blocks"
      done
      ;;
    conversations)
      converse conversations "$(share 40)" "dense=--policy dense" "recommended=$recommended" "one_stage=$one_stage" "blocks=$blocks" \
        "fast_blocks=$fast_blocks"
      ;;
    *) fail "TABLES: expected names of tables, as listed at the top of this script, found $table" ;;
  esac
done
[ -z "$not_whole" ] || echo "these tables are unfinished; run the script again to continue:$not_whole" >&2
