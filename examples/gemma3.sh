#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs missing packages, fetches Gemma 3 270M once, builds the program, and asks the model about a long text: the dense run beside the
# pruned one. You must agree to Gemma's terms of use: sh examples/gemma3.sh --accept-gemma-terms
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
. cmake/models.sh

case $*: in
  : | --accept-gemma-terms:) ;;
  *) fail "expected --accept-gemma-terms or nothing, found $*" ;;
esac
# shellcheck disable=SC2086
install_missing $library_packages
fetch_gemma3 "$@"
configure build
build build --target lazyprune.program

# The same needle as in smollm2.sh. A base model has no chat template, so the prompt ends with the beginning of the answer.
ask() {
  build/examples/lazyprune run --compare --model "$gemma3" --file examples/smollm2-prompt.txt \
    --prompt "The special magic number for Lisbon mentioned in the provided text is" --stop . -n 16 "$@"
}

# Most layers attend only to the last 512 tokens. Layers 6, 12 and 18 attend to all tokens, so pruning comes after 6 or 12 layers.
ask --stages 12:0.1 --trace build/gemma3.html
echo "which layers computed which tokens: build/gemma3.html"

fast="--policy lazyllm_blocks --stages 6:0.1"
printf '\nThe same with %s:\n\n' "$fast"
# shellcheck disable=SC2086
ask $fast
