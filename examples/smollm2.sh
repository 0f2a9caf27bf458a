#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs missing packages, fetches a real language model once, builds the program, and asks the model about a long text. It prints the
# dense run beside the pruned run.
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh
. cmake/models.sh

# shellcheck disable=SC2086
install_missing $library_packages
fetch_smollm2
configure build
build build --target lazyprune.program

# The program knows how to prune this model. The prompt is a needle in a haystack, with RULER's question. The haystack is the beginning of Jane
# Austen's Northanger Abbey (1818), from Debian's package r-cran-janeaustenr.
build/examples/lazyprune run --compare --chat --model "$smollm2" --file examples/smollm2-prompt.txt --stop . --trace build/smollm2.html
echo "which layers computed which tokens: build/smollm2.html"
