# SPDX-License-Identifier: MIT
"""The parts of a model that the package uses: its layers, their windows, and the angles of its rotary embedding."""

from __future__ import annotations

import dataclasses

import torch
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel

from .interface import attention_implementation, tensor_parallel_group
from .ranks import Ranks

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
IMPLEMENTATIONS = ("sdpa", "eager")
# Types of RoPE whose frequencies depend on the current length of the text. As in the model, each step computes their angles again.
_BY_LENGTH = ("dynamic", "longrope")


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A causal language model of one of FAMILIES."""

    model: PreTrainedModel
    windows: tuple[int | None, ...]  # for each layer: how many tokens a query sees, including its own, or None for all
    ranks: Ranks

    @staticmethod
    def of(model: torch.nn.Module) -> Decoder:
        """Finds the language model in `model`, which may wrap it. Raises ValueError if there is none, or if it is not
        supported."""
        inner = next((m for m in model.modules() if isinstance(m, PreTrainedModel) and isinstance(m, GenerationMixin)), None)
        if inner is None:
            raise ValueError(f"model: expected a language model of transformers, found {type(model).__name__}")
        config = inner.config
        if config.model_type not in FAMILIES:
            raise ValueError(f"model: expected one of {', '.join(FAMILIES)}, found {config.model_type}")
        implementation = attention_implementation(config)
        if implementation not in IMPLEMENTATIONS:
            raise ValueError(f"model: expected attn_implementation {' or '.join(IMPLEMENTATIONS)}, found {implementation}")
        return Decoder(inner, _windows(config), _ranks(inner))

    @property
    def layers(self) -> torch.nn.ModuleList:
        return self.model.model.layers

    @property
    def device(self) -> torch.device:
        """Returns the device where a step begins, which is that of the embedding table. If the table is offloaded, returns the CPU: the hooks
        that load the table also bring its inputs to its device."""
        device = self.model.get_input_embeddings().get_parameter("weight").device
        return torch.device("cpu") if device.type == "meta" else device

    @property
    def attention_after(self) -> list[int] | None:
        """Returns the numbers of done layers after which the policy may drop tokens by attention. These are the numbers n for which layer n - 1
        has no window. The number of all layers is left out, since no layer follows. Returns None if all layers have a window,
        or if no layer has one."""
        if all(self.windows) or not any(self.windows):
            return None
        return [layer + 1 for layer, window in enumerate(self.windows[:-1]) if window is None]

    def angles(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns cosines and sines (1, positions, head_dim) of the positions 0 to `positions` - 1."""
        like = torch.empty(0, dtype=self.model.get_input_embeddings().get_parameter("weight").dtype, device=self.device)
        return self.model.model.rotary_emb(like, torch.arange(positions, device=self.device)[None])

    @property
    def angles_by_length(self) -> bool:
        return self.model.config.rope_parameters.get("rope_type", "default") in _BY_LENGTH


def _windows(config: PreTrainedConfig) -> tuple[int | None, ...]:
    """Returns the window of each layer, as the model's code chooses it. Llama has no windows, and Mistral has one window for all layers. Only
    Qwen2 and Qwen3 read layer_types."""
    if config.model_type == "llama":
        return (None,) * config.num_hidden_layers
    if config.model_type == "mistral":
        return (config.sliding_window,) * config.num_hidden_layers
    unknown = sorted(set(config.layer_types) - {"full_attention", "sliding_attention"})
    if unknown:
        raise ValueError(f"model: expected layers of full_attention or sliding_attention, found {', '.join(unknown)}")
    return tuple(config.sliding_window if kind == "sliding_attention" else None for kind in config.layer_types)


def _ranks(model: PreTrainedModel) -> Ranks:
    """Returns the ranks that share the heads of the model. Raises ValueError if the heads are not split into equal shares."""
    ranks, config = Ranks(tensor_parallel_group(model)), model.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if heads % ranks.count or kv_heads % ranks.count:
        raise ValueError(
            f"model: expected numbers of heads that {ranks.count} ranks divide, found {heads} query heads and {kv_heads} key heads"
        )
    for name in ("q_proj", "k_proj", "v_proj") if ranks.count > 1 else ():
        found = model.tp_plan.get(f"model.layers.*.self_attn.{name}")
        if found != "colwise":
            raise ValueError(f"model: expected a tp_plan that splits the heads, as \"auto\" does, found {name}: {found}")
    return ranks
