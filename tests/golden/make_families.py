# SPDX-License-Identifier: MIT
"""Writes families.jsonl. Each line has a tiny model and the logits that transformers 5.23 computes for it in float64. There is a model for
each family and corner case.

python tests/golden/make_families.py > tests/golden/families.jsonl

No file stores the weights. They come from a formula, which family_weights.hpp has, too.
"""

import json
import math

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

SHAPE = {
    "vocab_size": 31, "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SHAPE, "hidden_act": "silu", "rms_norm_eps": 1e-6}
PHI3 = {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], **SHAPE, "hidden_act": "silu", "rms_norm_eps": 1e-5}
GEMMA2 = {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], **SHAPE, "hidden_activation": "gelu_pytorch_tanh",
          "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 6}
GEMMA3 = {"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], **SHAPE, "hidden_activation": "gelu_pytorch_tanh",
          "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 6, "num_hidden_layers": 6}


def longrope(dims, **more):
    return {"short_factor": [1.0 + 0.125 * i for i in range(dims)], "long_factor": [1.5 + 0.75 * i for i in range(dims)], **more}


MODELS = {
    # Like Salesforce/xgen-7b-8k-base: a Llama model with another tokenizer.
    "llama_xgen": LLAMA | {"num_key_value_heads": 6, "tie_word_embeddings": False},
    "llama_yarn_mscale": LLAMA | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                                                   "mscale": 0.75, "mscale_all_dim": 0.5, "beta_fast": 8, "beta_slow": 2}},
    "llama_longrope": LLAMA | {"rope_scaling": longrope(4, rope_type="longrope", factor=4.0, original_max_position_embeddings=16)},
    "llama_longrope_factor": LLAMA | {"rope_scaling": longrope(4, rope_type="longrope", attention_factor=1.25),
                                      "original_max_position_embeddings": 16},
    "mistral_window": LLAMA | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 5, "head_dim": 16},
    "qwen2_upper_windows": LLAMA | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "use_sliding_window": True,
                                    "sliding_window": 5, "max_window_layers": 2},
    "qwen3_layer_types": LLAMA | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16,
                                  "use_sliding_window": True, "sliding_window": 5, "attention_bias": True, "layer_types":
                                  ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]},
    "phi3": PHI3 | {"num_key_value_heads": None},
    "phi3_window": PHI3 | {"sliding_window": 5},
    "phi3_longrope": PHI3 | {"rope_scaling": longrope(4, type="longrope"), "original_max_position_embeddings": 16, "sliding_window": 40},
    # Like Phi-4-mini-instruct: RoPE rotates three quarters of each head.
    "phi3_partial": PHI3 | {"num_attention_heads": 3, "num_key_value_heads": 1, "partial_rotary_factor": 0.75, "tie_word_embeddings": True,
                            "rope_scaling": longrope(6, type="longrope"), "original_max_position_embeddings": 16},
    "phi3_partial_plain": PHI3 | {"num_attention_heads": 3, "num_key_value_heads": 3, "partial_rotary_factor": 0.5},
    "gemma2": GEMMA2 | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0},
    "gemma2_no_caps": GEMMA2 | {"attn_logit_softcapping": None, "final_logit_softcapping": None, "attention_bias": True,
                                "tie_word_embeddings": False, "layer_types":
                                ["full_attention", "full_attention", "sliding_attention", "full_attention"]},
    # Like the text model of gemma-3-4b-it, with the config keys of transformers 4.
    "gemma3": GEMMA3 | {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                        "sliding_window_pattern": 3, "final_logit_softcapping": None},
    "gemma3_default": GEMMA3 | {"query_pre_attn_scalar": 20, "final_logit_softcapping": 6.0, "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 5e5}, "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}},
}
POSITIONS = [0, 11, 29]


def number(name, count):
    """Returns numbers in [-1, 1) that are exact in float. The generator is splitmix64, seeded with the FNV-1a hash of the name."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(h) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1.0


# The stages of the pruned prefills, written as for the program's flag --stages.
STAGES = {"mistral_window": "1:0.6,3:0.5", "qwen2_upper_windows": "1:0.7,2:0.5", "phi3_partial": "1:0.7,3:0.5", "gemma2": "2:0.5",
          "gemma3": "3:0.5"}


def window_of(config, layer):
    kinds = getattr(config, "layer_types", None)
    return config.sliding_window if getattr(config, "sliding_window", None) and (not kinds or kinds[layer].startswith("sliding")) else 0


def pruned(model, stages, tokens):
    """Runs a prefill under LazyLLM's policy, layer by layer. Returns the tokens that enter each layer, and the last token's logits."""
    config, inner, shares = model.config, model.model, dict((int(a), float(b)) for a, b in (s.split(":") for s in stages.split(",")))
    seen = {}
    for l, layer in enumerate(inner.layers):
        layer.self_attn.register_forward_hook(lambda module, given, out, l=l: seen.update({l: out[1][0].mean(0)[-1]}))
    at = torch.arange(len(tokens))
    x, active = inner.embed_tokens(torch.tensor([tokens])), []
    for l, layer in enumerate(inner.layers):
        active.append(at.tolist())
        window = window_of(config, l)
        hidden = (at[None, :] > at[:, None]) | (window > 0) & (at[:, None] - at[None, :] >= (window or 1))
        kind = [config.layer_types[l]] if config.model_type.startswith("gemma3") else []
        x = layer(x, attention_mask=torch.zeros(hidden.shape).double().masked_fill(hidden, -torch.inf)[None, None],
                  position_ids=at[None], position_embeddings=inner.rotary_emb(x, at[None], *kind))
        if l + 1 in shares:
            score = seen[l].tolist()[:-1] + [math.inf]  # the query stays; among equal scores the later token wins
            order = sorted(range(len(at)), key=lambda i: (-score[i], -i))
            keep = sorted(order[: math.ceil(shares[l + 1] * len(at) - 1e-9)])
            at, x = at[keep], x[:, keep]
    logits = model.lm_head(inner.norm(x))[0, -1]
    cap = getattr(config, "final_logit_softcapping", None)
    return active, (cap * torch.tanh(logits / cap) if cap else logits).tolist()


def rounded(row):
    return [round(x, 8) for x in row]


def main():
    torch.set_num_threads(1)
    tokens = [(7 * i * i + 3 * i + 1) % SHAPE["vocab_size"] for i in range(max(POSITIONS) + 1)]
    for name, keys in MODELS.items():
        keys = {k: v for k, v in keys.items() if v is not None or "soft" in k}
        config = AutoConfig.for_model(**json.loads(json.dumps(keys)))
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).double().eval()
        less_one = keys["model_type"].startswith("gemma")
        for key, parameter in model.state_dict().items():
            values = number(key, parameter.numel()) / 4
            if key.endswith("norm.weight") and not less_one:
                values = values + 1
            if key == "model.embed_tokens.weight" and not less_one:
                values = values * 4
            if key == "lm_head.weight" and config.tie_word_embeddings:
                continue
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
        with torch.no_grad():
            logits = [model(torch.tensor([tokens[: p + 1]])).logits[0, -1].tolist() for p in POSITIONS]
            line = {"name": name, "config": keys, "tokens": tokens, "positions": POSITIONS, "logits": [rounded(row) for row in logits]}
            if name in STAGES:
                active, last = pruned(model, STAGES[name], tokens)
                line["pruned"] = {"stages": STAGES[name], "active": active, "logits": rounded(last)}
        print(json.dumps(line))


main()
