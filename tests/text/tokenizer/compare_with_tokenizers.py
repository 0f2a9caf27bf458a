# SPDX-License-Identifier: MIT
"""Compares the ids and texts of `lazyprune tokenize` with those of the package `tokenizers` (0.23) on mixed text: the given prose and code,
several scripts, white space, digits, random Unicode.
usage: compare_with_tokenizers.py PROGRAM FOLDER_OR_FILE... [--texts FILE...] [--megabytes 10] [--seed 1]
Each folder holds a tokenizer.json. The exit code is 1 if any text differs. The first few differences of each tokenizer are shown."""
import argparse, json, os, random, subprocess, sys, tempfile, unicodedata

from tokenizers import Tokenizer

LETTERS = {
    "latin": (0x41, 0x24F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x4FF), "hebrew": (0x5D0, 0x5EA), "arabic": (0x620, 0x6D3),
    "devanagari": (0x904, 0x97F), "thai": (0xE01, 0xE5B), "hangul": (0xAC00, 0xD7A3), "kana": (0x3041, 0x30FF), "han": (0x4E00, 0x9FA5),
    "emoji": (0x1F300, 0x1F64F), "marks": (0x300, 0x36F),
}
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\n\n", "   ", "\u00a0", "\u2003", "\u3000", " \n ", "\u200b", "\u0085"]
JOINTS = ["'s", "'LL", "’t", ", ", ". ", " - ", "/", "://", "_", "...", "!?", "(", ")", "{\n", "};\n", "<s>", "</s>", "<|im_start|>", "=="]


COMPATIBLE_SINCE_14 = {*range(0xA7F2, 0xA7F5), *range(0x10780, 0x107BB)}  # characters that the normal forms of `tokenizers` 0.23 do not know


def known(code):
    """Whether Python's Unicode (14 in Python 3.11) has this character. Random texts have no newer characters, because
    programs know different versions of Unicode."""
    return unicodedata.category(chr(code)) not in ("Cn", "Cs") and code not in COMPATIBLE_SINCE_14


def word(rng):
    low, high = LETTERS[rng.choice(list(LETTERS))]
    return "".join(chr(c) for c in (rng.randint(low, high) for _ in range(rng.randint(1, 9))) if known(c))


def mixed(rng):
    parts = []
    for _ in range(rng.randint(1, 60)):
        kind = rng.random()
        if kind < 0.5:
            parts.append(word(rng))
        elif kind < 0.7:
            parts.append(rng.choice(SPACES))
        elif kind < 0.8:
            parts.append(str(rng.randint(0, 10 ** rng.randint(1, 9))))
        elif kind < 0.95:
            parts.append(rng.choice(JOINTS))
        else:
            parts.append("".join(chr(c) for c in (rng.randint(0, 0x10FFFF) for _ in range(5)) if known(c)))
        if rng.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


def pieces_of(texts, rng, size):
    """Yields about `size` bytes of pieces of the given texts. A piece begins at a random place, and has one line or many."""
    while size > 0 and texts:
        text = rng.choice(texts)
        begin = rng.randrange(len(text))
        piece = text[begin : begin + int(2 ** rng.uniform(3, 13))]
        size -= len(piece.encode())
        yield piece


def corpus(files, size, seed):
    rng = random.Random(seed)
    texts = [open(f, encoding="utf-8", errors="replace").read() for f in files]
    all_texts = list(pieces_of([t for t in texts if t], rng, size * 0.6))
    left = size - sum(len(t.encode()) for t in all_texts)
    while left > 0:
        all_texts.append(mixed(rng))
        left -= len(all_texts[-1].encode())
    return all_texts


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("models", nargs="+")
    arguments.add_argument("--texts", nargs="*", default=[])
    arguments.add_argument("--megabytes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=1)
    args = arguments.parse_args()
    texts = corpus(args.texts, args.megabytes * 1e6, args.seed)
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        requests = os.path.join(folder, "requests.jsonl")
        with open(requests, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        for model in args.models:
            path = os.path.join(model, "tokenizer.json") if os.path.isdir(model) else model
            theirs = Tokenizer.from_file(path)
            theirs.no_truncation()
            theirs.no_padding()
            ran = subprocess.Popen([args.program, "tokenize", "-m", path, "--jsonl", requests], stdout=subprocess.PIPE)
            bad = tokens = lines = 0
            for text, line in zip(texts, ran.stdout):
                lines += 1
                ours, ids = json.loads(line), theirs.encode(text).ids
                tokens += len(ids)
                if ours.get("ids") == ids and ours["text"] == theirs.decode(ids, False) and ours["text_plain"] == theirs.decode(ids, True):
                    continue
                bad += 1
                if bad <= 3:
                    print(f"  {json.dumps(text)[:300]}\n    theirs {ids[:40]}\n    ours   {str(ours.get('ids', ours))[:300]}")
            code = ran.wait()
            if code != 0 or lines != len(texts):
                sys.exit(f"{path}: the program ended with {code} after {lines} of {len(texts)} texts")
            different += bad
            print(f"{path}: {len(texts)} texts, {tokens} tokens, {bad} differ", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
