#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures whole models with the program itself. The weights are random and made in memory; no file is needed.
#
#   sh bench/end_to_end/run.sh [TABLE...]        tinyllama, llama7b, growth; by default all of them
#
#   PROGRAM=build/examples/lazyprune   the program
#   THREADS=1,2                        threads for tinyllama; the other tables use the last number
#   REPETITIONS=5                      runs of each cell, after one to warm up
#   FLAGS=--peak                       additional flags for every `lazyprune bench`
#
# There are two schedules. `drawn` is the schedule of the paper's Figure 4: it drops 30 % of the active tokens after 30, 60 and 90 % of the
# layers. Rounded down, it prunes after 6, 13 and 19 of 22 layers, and after 9, 19 and 28 of 32. `2.3x` prunes after the same layers, but keeps
# fewer tokens (the paper reports 2.34x for multi-document QA). Each stage keeps 0.355 of the tokens for 2,048 tokens of TinyLlama-1.1B's shape,
# and 0.35 for 3,376 tokens of Llama-2-7B's shape. Bisection found these shares: with them the cost model predicts a speedup of 2.3, if an
# operation of attention costs as much as an operation of the linear layers. Longer prompts gain more, shorter prompts less. The columns
# `predicted` and `with memory` have the predictions of the cost model for each prompt, with measured costs.
set -eu

tinyllama_drawn=6:0.7,13:0.7,19:0.7
tinyllama_faster=6:0.355,13:0.355,19:0.355
llama7b_drawn=9:0.7,19:0.7,28:0.7
llama7b_faster=9:0.35,19:0.35,28:0.35

program=${PROGRAM:-build/examples/lazyprune}
threads=${THREADS:-1,2}
repetitions=${REPETITIONS:-5}

# table TITLE SHAPE THREADS STAGES FLAG...: prints one table
table() {
  printf '\n### %s, stages %s\n\n' "$1" "$4"
  shape=$2 on=$3 stages=$4
  shift 4
  # shellcheck disable=SC2086
  "$program" bench --random-weights "$shape" --dtype bf16 -t "$on" -r "$repetitions" --policy lazyllm --stages "$stages" "$@" ${FLAGS:-}
}

# Measures the prefill of growing prompts, dense and pruned, and the decode rate after the longest prompt.
tinyllama() {
  for stages in "$tinyllama_drawn" "$tinyllama_faster"; do
    table "TinyLlama-1.1B's shape" tinyllama-1.1b "$threads" "$stages" -P 512,2048,4096 -n 64
  done
}

# Measures the paper's model shape with the paper's average prompt and answer. This takes 16 GB of memory.
llama7b() {
  for stages in "$llama7b_drawn" "$llama7b_faster"; do
    table "Llama-2-7B's shape at the paper's average prompt" llama-2-7b "${threads##*,}" "$stages" -P 3376 -n 68
  done
}

# Measures how the time to the first token grows with the prompt.
growth() {
  for stages in "$tinyllama_drawn" "$tinyllama_faster"; do
    table "TinyLlama-1.1B's shape, growing prompts" tinyllama-1.1b "${threads##*,}" "$stages" -P 512,1024,2048,4096,8192,16384 -n 0
  done
}

if ! [ -x "$program" ]; then
  echo "error: $program is not there: build it, or say where it is with PROGRAM=..." >&2
  exit 1
fi
[ $# -gt 0 ] || set -- tinyllama llama7b growth
for name; do
  case $name in
    tinyllama | llama7b | growth) ;;
    *)
      echo "error: expected tinyllama, llama7b or growth, found $name" >&2
      exit 1
      ;;
  esac
done
for name; do "$name"; done
