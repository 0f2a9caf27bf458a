# SPDX-License-Identifier: MIT
"""Writes the inputs from which the fuzz target of GGUF files starts: python3 tests/fuzz/gguf_seeds.py [FOLDER]. There is one for each model
family, with different ways to scale positions, and one for each kind of vocabulary: SentencePiece, byte-level BPE, and t5, which is
refused. FOLDER is tests/fuzz/corpus/gguf unless given."""

import pathlib
import struct
import sys

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
PACKED = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}


def value(kind, v):
    if kind == STRING:
        text = v.encode()
        return struct.pack("<Q", len(text)) + text
    return struct.pack(PACKED[kind], v)


def entry(name, v, of=I32):
    """Returns a key with its value. `of` is the type of a list's items."""
    if isinstance(v, list):
        items = b"".join(value(of, each) for each in v)
        return value(STRING, name) + struct.pack("<IIQ", ARRAY, of, len(v)) + items
    kind = {bool: BOOL, int: U32, float: F32, str: STRING}[type(v)]
    return value(STRING, name) + struct.pack("<I", kind) + value(kind, v)


def file(keys, tensors):
    """Returns a file with these keys and F32 tensors, which are lists of numbers."""
    bytes_of, table, data = b"".join(keys), b"", b""
    for name, numbers in tensors.items():
        table += value(STRING, name) + struct.pack("<IQIQ", 1, len(numbers), 0, len(data))
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + bytes_of + table
    return head + bytes(-len(head) % 32 if tensors else 0) + data


def config(family, **own):
    shape = {"block_count": 2, "context_length": 64, "embedding_length": 16, "feed_forward_length": 32, "attention.head_count": 4,
             "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e4, "rope.dimension_count": 4}
    shape.update({key.replace("__", "."): v for key, v in own.items()})
    return [entry("general.architecture", family)] + [entry(f"{family}.{key}", v, U32) for key, v in shape.items()]


def vocabulary(kind, pieces, types, **own):
    keys = {"model": kind, "tokens": pieces, "token_type": types, "bos_token_id": 1, "eos_token_id": 2, **own}
    items = {"tokens": STRING, "merges": STRING, "scores": F32}
    return [entry(f"tokenizer.ggml.{key}", v, items.get(key, I32)) for key, v in keys.items()]


def sentencepiece(kind="llama", falls_back=False, **own):
    """`falls_back`: whether there is a piece for each byte."""
    pieces = ["<unk>", "<s>", "</s>", "<x y>", "\u2581", "a", "b", "ab", "\u2581ab"]
    types = [2, 3, 3, 4, 1, 1, 1, 1, 1]
    scores = [0.0, 0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -2.0, -1.0]
    if falls_back:
        pieces, types, scores = pieces + [f"<0x{byte:02X}>" for byte in range(256)], types + [6] * 256, scores + [0.0] * 256
    return vocabulary(kind, pieces, types, scores=scores, **own)


def byte_level(pre, **own):
    pieces = ["a", "<s>", "</s>", "b", "ab", "\u0120", "1", "11", "<|im_end|>"]
    return vocabulary("gpt2", pieces, [1, 3, 3, 1, 1, 1, 1, 1, 4], pre=pre, merges=["a b", "1 1"], add_bos_token=True, add_eos_token=True, **own)


EMBEDDING = {"output.weight": [1.0], "blk.0.attn_q.bias": [1.0]}
HALF = [1.0, 2.0]  # a number for each pair of a head
SEEDS = {
    "llama": file(config("llama", rope__scaling__type="none", attention__causal=True) + sentencepiece(add_space_prefix=False),
                  {"rope_freqs.weight": HALF, **EMBEDDING}),
    "qwen2": file(config("qwen2", attention__head_count=[4, 4], rope__scaling__type="yarn", rope__scaling__factor=4.0,
                         rope__scaling__original_context_length=16, rope__scaling__yarn_beta_fast=32.0, rope__scaling__yarn_beta_slow=1.0,
                         rope__scaling__yarn_ext_factor=1.0, rope__scaling__yarn_log_multiplier=0.0, attention__sliding_window=64)
                  + byte_level("qwen2"), EMBEDDING),
    "qwen3": file(config("qwen3", attention__key_length=8, attention__value_length=8, rope__dimension_count=8, rope__scale_linear=2.0,
                         attention__scale=0.35355338, expert_count=0, expert_used_count=0, logit_scale=1.0)
                  + byte_level("llama-bpe", eot_token_id=8), {}),
    "phi3": file(config("phi3", rope__dimension_count=2, attention__sliding_window=16, rope__scaling__original_context_length=32,
                        rope__scaling__attn_factor=1.25) + sentencepiece(falls_back=True, unknown_token_id=0, remove_extra_whitespaces=True),
                 {"rope_factors_short.weight": [1.0], "rope_factors_long.weight": [2.0]}),
    "gemma2": file(config("gemma2", attention__sliding_window=8, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, vocab_size=10),
                   {}),
    "gemma3": file(config("gemma3", attention__sliding_window=8, attention__sliding_window_pattern=2, rope__freq_base_swa=1e4,
                          final_logit_softcapping=0.0, rope__scaling__type="linear", rope__scaling__factor=8.0) + sentencepiece(), {}),
    "t5": file(sentencepiece("t5"), {}),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("corpus") / "gguf")
    for name, content in SEEDS.items():
        (folder / name).write_bytes(content)
