#!/bin/sh
# SPDX-License-Identifier: MIT
# Writes the goldens again: sh tests/golden/make.sh build/examples/lazyprune
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")"

# The token ids that the dense run generates. All traced runs are forced to generate them, too. A run never reads its last token.
answer=$("$program" run --backend reference --policy dense -f prompt.txt -n 8 --json | sed -n 's/.*"tokens": *\[\([0-9, ]*\)\].*/\1/p' | tr -d ' ')

trace() {
  file=$1.jsonl
  shift
  "$program" run --backend reference -f prompt.txt --force-ids "$answer" --trace "$file" "$@" >/dev/null 2>&1
}
trace dense --policy dense --trace-logits
trace lazyllm --stages 3:0.3,5:0.1 --trace-logits
trace protected --stages 2:0.5,4:0.3,5:0.1 --keep-first 4 --keep-last 8
trace prompt_only --stages 2:0.5 --decode dense
trace static --policy static --stages 2:0.3
trace bounded --stages 2:0.4,4:0.5 --scorer value_weighted_attention --store bounded:rows=60
trace window --stages 2:0.4 --scorer window_attention:window=8 --selector blocks:size=8
trace accumulated --scorer accumulated_attention --schedule every:n=2,share=0.5 --selector top_p:mass=0.95
trace adaptive --schedule adaptive:from=2,every=2,mass=0.8,least=0.1
trace random --policy random --stages 0:0.6
