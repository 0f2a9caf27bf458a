# SPDX-License-Identifier: MIT
"""A press of kvpress (https://github.com/NVIDIA/kvpress) that drops the tokens which a policy of lazyprune drops. It needs kvpress."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from kvpress.presses.base_press import BasePress
from kvpress.utils import get_prerope_query_states
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import rotate_half

from . import c, evidence
from .interface import attention_implementation
from .pruning import Pruning, Scorer, prune
from .step import Part, Step

KEEP = "{keep}"


@dataclasses.dataclass
class LazyPrunePress(BasePress):
    """Hides in each layer the keys and values of the tokens that the policy drops before this layer. So kvpress's pipeline and its evaluation
    run with lazyprune's policies as they are.

    policy: as in `prune`. If it contains {keep}, as "lazyllm --stages 9:{keep},19:{keep}" does, compression_ratio sets this share.
    compression_ratio: the share of all layers' keys and values that is dropped. Without {keep}, the policy alone decides. The press then sets
        compression_ratio to the share that it dropped from the last prompt.
    scorer: as in `prune`.

    A press shows how well a model answers without the dropped keys and values. It cannot show what `prune` saves. The model computes every
    token of the prompt in every layer, so there is no shorter time to the first token. It also differs from `prune` in what it computes:

    - Within the prompt, dropped tokens still attend and are attended to. Only the scores see the active tokens alone.
    - A dropped token never comes back, because a press has no hidden states to continue from.
    - The cache keeps its size. A layer drops other tokens than the layer before, so their keys are hidden (masked_key_indices), as in kvpress's
      own presses of this kind.
    - kvpress's pipeline shows the question after the press is done. So the last token of the context scores, and not that of the question.
    """

    policy: str = "lazyllm"
    compression_ratio: float = 0.0
    scorer: Scorer | None = None

    def __post_init__(self) -> None:
        self._dropped = 0.0  # of the last prompt

    def post_init_from_model(self, model: PreTrainedModel) -> None:
        if attention_implementation(model.config) == "eager":  # kvpress hides no keys from it
            raise ValueError("LazyPrunePress: expected another attn_implementation, such as sdpa, found eager")
        if KEEP in self.policy:
            self._pruning = prune(model, self._with_share(model), scorer=self.scorer)
        elif self.compression_ratio not in (0.0, self._dropped):
            raise ValueError(f"compression_ratio: expected a policy with {KEEP}, which the ratio sets, found {self.policy}")
        else:
            self._pruning = prune(model, self.policy, scorer=self.scorer)

    def _with_share(self, model: PreTrainedModel) -> str:
        """Returns the policy with the share for which it drops compression_ratio of the keys and values."""
        least, most = 0.0, 1.0
        policy = lambda share: self.policy.replace(KEEP, f"{share:.4f}")
        possible = _dropped(prune(model, policy(0.0001)))
        if not 0 <= self.compression_ratio <= possible:
            raise ValueError(
                f"compression_ratio: expected 0 to {possible:.2f}, as much as {self.policy} can drop, found {self.compression_ratio}"
            )
        while most - least > 0.0001:
            share = (least + most) / 2
            least, most = (share, most) if _dropped(prune(model, policy(share))) > self.compression_ratio else (least, share)
        return policy(most)

    @torch.no_grad()
    def compress(
        self,
        module: torch.nn.Module,
        hidden_states: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        attentions: torch.Tensor | None,
        kwargs: dict[str, Any],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """hidden_states (1, tokens, hidden): the input of the attention. keys, values (1, kv_heads, tokens, head_dim), after RoPE. Hides the
        keys of the tokens that are not active in this layer, and returns the keys and values as they are."""
        layer, tokens = module.layer_idx, hidden_states.shape[1]
        if keys.shape[0] != 1:
            raise ValueError(f"LazyPrunePress: expected one text, found a batch of {keys.shape[0]}")
        if keys.shape[2] != tokens:
            raise ValueError(f"LazyPrunePress: layer {layer}: expected the keys of all {tokens} tokens, found {keys.shape[2]}")
        if layer == 0:
            self._begin(tokens)
        part = self._step.parts[0]
        plan = part.enter(layer)
        if plan.wants in (c.HIDDEN, c.IDS):
            raise ValueError(f"policy: expected one that scores by attention, keys or values, found {self._pruning.policy}")
        hidden = torch.ones(keys.shape[:3], dtype=torch.bool, device=keys.device)
        hidden[:, :, part.active.tensor(keys.device)] = False
        module.masked_key_indices = torch.nonzero(hidden, as_tuple=True) if len(part.active) < tokens else None
        if plan.wants:
            active = part.active.index(keys.device)
            queries = part.rows.last({c.WINDOW: plan.window, c.PROBES: plan.probe_rows}.get(plan.wants, 1)).tensor(keys.device)
            query = get_prerope_query_states(module, hidden_states[:, queries])
            cos, sin = (angles[:, queries, None].transpose(1, 2) for angles in kwargs["position_embeddings"])
            query = query * cos + rotate_half(query) * sin
            window = self._step.decoder.windows[layer]
            part.shown = evidence.look(self._step, part, query[0], keys[0, :, active], values[0, :, active], window, module.scaling)
        (shown,) = evidence.to_host(self._step, hidden_states[0])
        part.text.session.leave(**shown)
        self._kept += len(part.active)
        if layer + 1 == len(self._step.decoder.windows):
            part.text.session.finish()
            self._dropped = 1 - self._kept / (tokens * (layer + 1))
            if KEEP not in self.policy:
                self.compression_ratio = self._dropped
        return keys, values

    def _begin(self, tokens: int) -> None:
        cache = self._pruning.cache()
        cache.begin(np.ones((1, tokens), bool))
        self._step, self._kept = Step(self._pruning.decoder, cache, self.scorer), 0
        self._step.parts = [Part(cache.texts[0], 1)]
        cache.texts[0].session.begin(tokens, c.PREFILL, outputs=1)


def _dropped(pruning: Pruning, tokens: int = 1000) -> float:
    """Returns the share of keys and values that a policy drops from a prompt. Its scores are all equal, since only the number of tokens counts."""
    cache = pruning.cache()
    cache.begin(np.ones((1, tokens), bool))
    session, kept = cache.texts[0].session, 0
    layers = session.begin(tokens, c.PREFILL, outputs=1)
    for layer in range(layers):
        plan = session.enter(layer)
        active = len(plan.active)
        shapes = {
            c.ATTENTION: (1, active), c.WINDOW: (plan.window, 1, active), c.KEYS: (active, 1, 1), c.VALUES: (1, active),
            c.PROBES: (len(plan.probes), active),
        }
        shown = {"data": np.ones(shapes[plan.wants], np.float32)} if plan.wants in shapes else {}
        if plan.wants == c.VALUES:
            shown["values"] = np.ones((active, 1, 1), np.float32)
        session.leave(plan.wants, **shown)
        kept += active
    return 1 - kept / (tokens * layers)
