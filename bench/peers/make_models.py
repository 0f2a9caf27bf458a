#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a model of random weights in several formats with the same numbers, to compare engines.

  make_models.py DIRECTORY [-s SHAPE] [--layers N] [-f FORMAT,...]

  DIRECTORY/SHAPE-F32.gguf, -BF16.gguf, -Q8_0.gguf, ...  for llama.cpp and ik_llama.cpp
  DIRECTORY/SHAPE-hf-f32/, -hf-bf16/                     for Hugging Face and lazyprune: config.json, model.safetensors

With --layers, the shape has only N layers, and SHAPE in the names is followed by -lN.

Weights have a normal distribution with a mean of 0 and a standard deviation of 0.02; the weights of norms have 1 and 0.05. PCG64 draws each
tensor from a seed and its name, so every file can be made again on any machine. Needs numpy and gguf (pip install numpy gguf). llama.cpp
makes Q4_K_M and Q6_K from the BF16 file, so these formats also need that file and llama-cpp-python.
"""
import argparse
import contextlib
import json
import os
import struct
import zlib
from dataclasses import dataclass, replace

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import LlamaFileType as FileType

SEED = 1


@dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    positions: int

    @property
    def head_dim(self):
        return self.hidden // self.heads


SHAPES = {
    "tinyllama-1.1b": Shape(hidden=2048, layers=22, heads=32, kv_heads=4, ffn=5632, vocabulary=32000, positions=16384),
    "small": Shape(hidden=512, layers=4, heads=8, kv_heads=4, ffn=1376, vocabulary=4096, positions=16384),
}


@dataclass(frozen=True)
class Tensor:
    name: str  # in Hugging Face files
    gguf_name: str
    shape: tuple
    rotated_heads: int = 0  # number of heads, if RoPE rotates the tensor's outputs; otherwise 0


def tensors_of(shape):
    kv_size = shape.kv_heads * shape.head_dim
    yield Tensor("model.embed_tokens.weight", "token_embd.weight", (shape.vocabulary, shape.hidden))
    for layer in range(shape.layers):
        hf, block = f"model.layers.{layer}.", f"blk.{layer}."
        yield Tensor(hf + "input_layernorm.weight", block + "attn_norm.weight", (shape.hidden,))
        yield Tensor(hf + "self_attn.q_proj.weight", block + "attn_q.weight", (shape.hidden, shape.hidden), shape.heads)
        yield Tensor(hf + "self_attn.k_proj.weight", block + "attn_k.weight", (kv_size, shape.hidden), shape.kv_heads)
        yield Tensor(hf + "self_attn.v_proj.weight", block + "attn_v.weight", (kv_size, shape.hidden))
        yield Tensor(hf + "self_attn.o_proj.weight", block + "attn_output.weight", (shape.hidden, shape.hidden))
        yield Tensor(hf + "post_attention_layernorm.weight", block + "ffn_norm.weight", (shape.hidden,))
        yield Tensor(hf + "mlp.gate_proj.weight", block + "ffn_gate.weight", (shape.ffn, shape.hidden))
        yield Tensor(hf + "mlp.up_proj.weight", block + "ffn_up.weight", (shape.ffn, shape.hidden))
        yield Tensor(hf + "mlp.down_proj.weight", block + "ffn_down.weight", (shape.hidden, shape.ffn))
    yield Tensor("model.norm.weight", "output_norm.weight", (shape.hidden,))
    yield Tensor("lm_head.weight", "output.weight", (shape.vocabulary, shape.hidden))


def values_of(tensor):
    draw = np.random.Generator(np.random.PCG64([SEED, zlib.crc32(tensor.name.encode())]))
    normal = draw.standard_normal(tensor.shape, dtype=np.float32)
    if len(tensor.shape) == 1:
        return np.float32(1) + np.float32(0.05) * normal
    return np.float32(0.02) * normal


def interleaved(values, heads):
    """Returns the rows in GGUF's order. In GGUF's order RoPE rotates neighbouring rows of a head together. In Hugging Face's order it rotates row i
    together with row i + head_dim / 2."""
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, columns)


def bf16_of(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # rounds to nearest, ties to even


def made_up_vocabulary(size):
    """A vocabulary that llama.cpp can load: three special tokens, the 256 byte tokens that its loader looks for, and numbered words."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    words = size - len(tokens)
    tokens += [f"\u2581{word}" for word in range(words)]
    types += [gguf.TokenType.NORMAL] * words
    return tokens, types


class GgufFile:
    def __init__(self, directory, name, shape, kind):
        self.type, self.path = Type[kind], os.path.join(directory, f"{name}-{kind}.gguf")
        self.writer = gguf.GGUFWriter(self.path, "llama")
        file_type = FileType["ALL_F32" if kind == "F32" else "MOSTLY_" + kind]
        tokens, types = made_up_vocabulary(shape.vocabulary)
        w = self.writer
        w.add_name(name)
        w.add_file_type(file_type)
        w.add_context_length(shape.positions)
        w.add_embedding_length(shape.hidden)
        w.add_block_count(shape.layers)
        w.add_feed_forward_length(shape.ffn)
        w.add_head_count(shape.heads)
        w.add_head_count_kv(shape.kv_heads)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_rope_dimension_count(shape.head_dim)
        w.add_rope_freq_base(10000.0)
        w.add_vocab_size(shape.vocabulary)
        w.add_tokenizer_model("llama")
        w.add_token_list(tokens)
        w.add_token_scores([-float(i) for i in range(len(tokens))])
        w.add_token_types(types)
        w.add_unk_token_id(0)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        for tensor in tensors_of(shape):
            kind_of_tensor = self.type_of(tensor)
            if kind_of_tensor == Type.F32:
                w.add_tensor_info(tensor.gguf_name, tensor.shape, np.dtype(np.float32), 4 * int(np.prod(tensor.shape)))
            else:
                stored = gguf.quant_shape_to_byte_shape(tensor.shape, kind_of_tensor)
                w.add_tensor_info(tensor.gguf_name, stored, np.dtype(np.uint8), int(np.prod(stored)), raw_dtype=kind_of_tensor)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_ti_data_to_file()

    def type_of(self, tensor):
        return Type.F32 if len(tensor.shape) == 1 else self.type

    def write(self, tensor, values):
        if tensor.rotated_heads:
            values = interleaved(values, tensor.rotated_heads)
        kind = self.type_of(tensor)
        self.writer.write_tensor_data(values if kind == Type.F32 else gguf.quants.quantize(values, kind))

    def close(self):
        self.writer.close()


class HuggingFaceDirectory:
    def __init__(self, directory, name, shape, kind):
        self.bf16, self.path = kind == "hf-bf16", os.path.join(directory, f"{name}-{kind}")
        os.makedirs(self.path, exist_ok=True)
        with open(os.path.join(self.path, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.config(shape), file, indent=1)
        header, end = {}, 0
        for tensor in tensors_of(shape):
            begin, end = end, end + int(np.prod(tensor.shape)) * (2 if self.bf16 else 4)
            header[tensor.name] = {"dtype": "BF16" if self.bf16 else "F32", "shape": tensor.shape, "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(os.path.join(self.path, "model.safetensors"), "wb")
        self.file.write(struct.pack("<Q", len(text)) + text)

    def config(self, shape):
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": shape.hidden,
            "intermediate_size": shape.ffn,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "vocab_size": shape.vocabulary,
            "max_position_embeddings": shape.positions,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "rope_scaling": None,
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16" if self.bf16 else "float32",
        }

    def write(self, tensor, values):
        (bf16_of(values) if self.bf16 else values).tofile(self.file)

    def close(self):
        self.file.close()


COMPARED = ["F32", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K", "hf-f32", "hf-bf16"]
QUANTIZED_BY_LLAMA_CPP = ["Q4_K_M", "Q6_K"]
FORMATS = {kind: HuggingFaceDirectory if kind.startswith("hf-") else GgufFile for kind in [*COMPARED, "F16"] if kind not in QUANTIZED_BY_LLAMA_CPP}


def quantize(source, path, kind):
    import llama_cpp

    if not os.path.exists(source):
        raise SystemExit(f"{path} is made from {source}, which does not exist: add BF16 to --formats")
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    if llama_cpp.llama_model_quantize(source.encode(), path.encode(), options) != 0:
        raise SystemExit(f"{source}: llama.cpp cannot quantize it to {kind}")


def main():
    parser = argparse.ArgumentParser(description="Writes a model of random weights in several formats, the same numbers in each.")
    parser.add_argument("directory")
    parser.add_argument("-s", "--shape", choices=SHAPES, default="tinyllama-1.1b")
    parser.add_argument("--layers", type=int, help="number of layers (default: the shape's)")
    usual, known = ",".join(COMPARED), [*FORMATS, *QUANTIZED_BY_LLAMA_CPP]
    parser.add_argument("-f", "--formats", default=usual, help="some of " + ",".join(known) + " (default: " + usual + ")")
    options = parser.parse_args()
    kinds = options.formats.split(",")
    if unknown := [kind for kind in kinds if kind not in known]:
        parser.error(f"--formats: expected some of {', '.join(known)}, found {unknown[0]}")

    shape, name = SHAPES[options.shape], options.shape
    if options.layers:
        shape, name = replace(shape, layers=options.layers), f"{name}-l{options.layers}"
    os.makedirs(options.directory, exist_ok=True)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(contextlib.closing(FORMATS[k](options.directory, name, shape, k))) for k in kinds if k in FORMATS]
        for tensor in tensors_of(shape):
            values = values_of(tensor)
            for file in files:
                file.write(tensor, values)
    paths = [file.path for file in files]
    for kind in QUANTIZED_BY_LLAMA_CPP:
        if kind in kinds:
            paths.append(os.path.join(options.directory, f"{name}-{kind}.gguf"))
            quantize(os.path.join(options.directory, f"{name}-BF16.gguf"), paths[-1], kind)
    for path in paths:
        print("wrote", path)


if __name__ == "__main__":
    main()
