#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs missing packages, builds the program lazyprune, and runs it on the bundled model: the dense run beside the pruned one.
set -eu
cd "$(dirname "$0")/.."
. cmake/packages.sh

# shellcheck disable=SC2086
install_missing $library_packages
configure build
build build --target lazyprune.program

# The program answers a question about a long text, pruned and dense. The calibration names the heads that rank the tokens.
prompt=examples/pocket/prompts/profile.txt
build/examples/lazyprune run --compare --file "$prompt" --pruning-file examples/lazyprune/models/known/pocket.json --stop ' .' --trace build/trace.html
echo "which layers computed which tokens: build/trace.html"
