# SPDX-License-Identifier: MIT
"""Small random models and prompts for the tests of the package for transformers."""

import importlib
import sys


def needs(*modules):
    """Skips the tests if a module is missing."""
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        print(f"skipped: needs python3 with {' and '.join(modules)}")
        sys.exit(77)


needs("torch", "transformers")
import numpy as np
import torch
import transformers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
SMALL = {
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": None,
    "pad_token_id": 0,
}
HIDDEN = 5  # as in lazyprune.h
PRUNED = "lazyllm --stages 2:0.5,4:0.5"


def random_model(config=LlamaConfig, kind=LlamaForCausalLM, **more):
    torch.manual_seed(1)
    model = kind(config(**{**SMALL, **more})).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # makes the attention prefer some tokens
            if parameter.ndim == 2 or name.endswith(".bias"):
                parameter.normal_(std=0.15)
    return model


FAMILIES = {  # each takes further fields of the configuration
    "llama": random_model,
    "llama, scaled": lambda **more: random_model(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}, **more),
    "llama, by length": lambda **more: random_model(
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}, max_position_embeddings=32, **more
    ),
    "mistral": lambda **more: random_model(MistralConfig, MistralForCausalLM, sliding_window=16, **more),
    "qwen2": lambda **more: random_model(Qwen2Config, Qwen2ForCausalLM, **more),
    "qwen2, windows": lambda **more: random_model(
        Qwen2Config, Qwen2ForCausalLM, use_sliding_window=True, sliding_window=16, max_window_layers=4, **more
    ),
    "qwen3": lambda **more: random_model(Qwen3Config, Qwen3ForCausalLM, head_dim=32, **more),
}


def add_scorer_of_hidden_states(library):
    """Adds the scorer "longest". It prefers the tokens with the longest hidden states, and reads all hidden states of the layer."""

    def score(shown):
        scores = np.zeros(shown.active, np.float32)
        scores[np.searchsorted(shown.positions, shown.rows)] = np.linalg.norm(shown.data, axis=1)
        return scores

    library.add_scorer("longest", score, wants=HIDDEN)


def ids(tokens, batch=1, seed=2):
    return torch.randint(3, 100, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def padded():
    batch, mask = ids(40, 3), torch.ones(3, 40, dtype=torch.long)
    mask[0, :7] = 0
    mask[2, :21] = 0
    return batch, mask


def greedy(model, inputs, tokens=12, **more):
    return model.generate(inputs, max_new_tokens=tokens, do_sample=False, **more)
