#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a Llama model as a GGUF file in F32, for engines on ggml and for llama.cpp.

  write_gguf.py FOLDER OUT.gguf      from a Hugging Face folder with config.json and model.safetensors
  write_gguf.py IN.gguf OUT.gguf     from another GGUF file: converts the weights to F32 and keeps the metadata

No number is rounded. A file that is made from a folder has no vocabulary, so programs use it with token ids. The script needs numpy and
gguf (pip install numpy gguf).
"""
import argparse
import json
import os
import struct
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if stem in WHOLE:
        return WHOLE[stem] + ".weight"
    parts = stem.split(".", 3)
    if stem == name or parts[:2] != ["model", "layers"] or len(parts) != 4 or parts[3] not in NAMES:
        sys.exit(f"{name}: expected a tensor of a Llama model, found another")
    return f"blk.{parts[2]}.{NAMES[parts[3]]}.weight"


def interleaved(values, heads):
    """Reorders the rows of each head from Hugging Face's order to GGUF's. RoPE rotates pairs of rows. A pair is rows i and i + head_dim / 2 in
    Hugging Face's order, and two neighbours in GGUF's order."""
    rows, columns = values.shape
    return values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors_of(path):
    """Yields the names and the values (float32) of the tensors in a safetensors file."""
    data = np.memmap(path, np.uint8, "r")
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    for name, entry in json.loads(data[8 : 8 + length].tobytes()).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        stored = data[begin:end]
        if entry["dtype"] == "BF16":
            values = (stored.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif entry["dtype"] in ("F16", "F32"):
            values = stored.view(np.float16 if entry["dtype"] == "F16" else np.float32).astype(np.float32)
        else:
            sys.exit(f"{path}: {name}: expected BF16, F16 or F32, found {entry['dtype']}")
        yield name, values.reshape(entry["shape"])


def from_folder(folder, out):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}  # transformers 5 writes the former
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if config["model_type"] != "llama" or rope_type != "default":
        sys.exit(f"{folder}/config.json: expected a Llama with the default RoPE, found {config['model_type']} with {rope_type} RoPE")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.get("rope_theta") or rope.get("rope_theta") or 10000.0)
    writer.add_tokenizer_model("none")
    for name, values in tensors_of(os.path.join(folder, "model.safetensors")):
        turned = heads if name.endswith("q_proj.weight") else kv_heads if name.endswith("k_proj.weight") else 0
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(interleaved(values, turned) if turned else values))
    return writer


def widened(path, out):
    source = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, source.get_field(gguf.Keys.General.ARCHITECTURE).contents())
    for field in source.fields.values():
        if field.name == gguf.Keys.General.FILE_TYPE:
            writer.add_file_type(gguf.LlamaFileType.ALL_F32)
        elif field.name == gguf.Keys.General.ALIGNMENT:
            writer.add_custom_alignment(field.contents())
        elif field.name != gguf.Keys.General.ARCHITECTURE and not field.name.startswith("GGUF."):
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for tensor in source.tensors:
        values = tensor.data if tensor.tensor_type == Type.F32 else gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    return writer


def main():
    parser = argparse.ArgumentParser(description="Writes a Llama model as a GGUF file in F32.")
    parser.add_argument("source", help="a folder with config.json and model.safetensors, or a GGUF file")
    parser.add_argument("out", help="the GGUF file to write")
    options = parser.parse_args()
    writer = (from_folder if os.path.isdir(options.source) else widened)(options.source, options.out)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print("wrote", options.out)


if __name__ == "__main__":
    main()
