#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what llama.cpp computes for a text: IDS (the first token ids, separated by spaces) and LOGITS (float32, a row for each token).

  build/peers/llama_cpp/bin/python bench/rounding/llama_cpp_logits.py MODEL TEXT TOKENS IDS LOGITS

Needs llama-cpp-python and numpy (bench/peers/install.py).
"""
import sys

import llama_cpp
import numpy as np


def main():
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    model, text, tokens, ids_file, logits_file = sys.argv[1:]
    with open(text, "rb") as file:
        words = file.read()
    net = llama_cpp.Llama(model, n_ctx=int(tokens), n_batch=int(tokens), logits_all=True, verbose=False)
    ids = net.tokenize(words)[: int(tokens)]
    net.eval(ids)
    with open(ids_file, "w", encoding="utf-8") as file:
        print(*ids, file=file)
    np.asarray(net.scores[: len(ids)], dtype=np.float32).tofile(logits_file)


if __name__ == "__main__":
    main()
