# SPDX-License-Identifier: MIT
"""A model under a policy, for as long as a `with` lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers.modeling_outputs import CausalLMOutputWithPast

from . import c
from .cache import PrunedCache, Statistics
from .decoder import Decoder
from .library import shared_library
from .step import Step
from .trace import TraceRecorder

Scorer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def prune(
    model: torch.nn.Module,
    policy: str = "lazyllm",
    *,
    scorer: Scorer | None = None,
    library: c.Library | None = None,
    trace: TraceRecorder | None = None,
) -> Pruning:
    """Within `with prune(model, policy):` the model's forward pass and `generate` compute the tokens that the policy's plans ask for.

    policy: a preset's name and flags, as the program lazyprune takes them: "lazyllm --stages 9:0.7,19:0.7", "lazyllm_blocks --stages
        15:0.3 --decode dense", "dense"; Library.policy_help() lists what there is.
    scorer: a function of one's own in the place of the policy's last_query_attention: it gets the last query's attention (heads, active) and
        the active tokens' places in the text (active), both on the model's device, and returns their importance (active), larger is more
        important.
    library: where the policy's names are looked up; shared_library() if None.
    trace: records what each layer saw and computed.

    Raises ValueError where the model is none of the families that are known, and Error where the policy is wrong.
    """
    return Pruning(model, policy, scorer, library or shared_library(), trace)


class Pruning:
    """What `prune` returns. `enable` and `disable` do what `with` does. Threads that use the model take turns, a forward pass each."""

    def __init__(
        self, model: torch.nn.Module, policy: str, scorer: Scorer | None, library: c.Library, trace: TraceRecorder | None
    ) -> None:
        for name, given, expected, right in (
            ("model", model, "a torch module", isinstance(model, torch.nn.Module)),
            ("policy", policy, "a text", isinstance(policy, str)),
            ("scorer", scorer, "a function", scorer is None or callable(scorer)),
        ):
            if not right:
                raise ValueError(f"{name}: expected {expected}, found {type(given).__name__}")
        self.decoder = Decoder.of(model)
        self.policy, self.scorer, self.library, self.trace = policy, scorer, library, trace
        self._sessions: list[c.Session] = []  # of the last forward pass
        self._before: dict[str, Any] = {}  # what the model's own attributes were
        self._dense: dict[str, Any] = {}  # what they called
        self._turn = threading.RLock()
        self.cache()  # a policy that is wrong is told of at once
        if scorer is not None:
            text = library.policy_text(policy, len(self.decoder.windows), self.decoder.attention_after)
            if "--scorer last_query_attention" not in text:
                raise ValueError(f"scorer: expected a policy of last_query_attention, whose place it takes, found {text}")

    def cache(self) -> PrunedCache:
        """An empty cache, for `past_key_values`."""
        return PrunedCache(self.library, self.policy, self.decoder)

    def read(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, past_key_values: PrunedCache | None = None
    ) -> PrunedCache:
        """A cache that has read these columns, (batch, columns), as far as no question decides: below the first layer that could prune.
        `generate` takes it, or a copy (copy.deepcopy), with a prompt that begins with them."""
        if not self._dense:
            raise ValueError("read: expected a call within `with prune(...)`, found one outside")
        if not isinstance(input_ids, torch.Tensor):
            raise ValueError(f"input_ids: expected a tensor (batch, columns), found {type(input_ids).__name__}")
        cache = self.cache() if past_key_values is None else self._own(past_key_values)
        cache.prompt_until = cache.get_seq_length() + input_ids.shape[1] + 1
        try:
            self.forward(input_ids, attention_mask, past_key_values=cache, logits_to_keep=1)
        finally:
            cache.prompt_until = None
        return cache

    @property
    def statistics(self) -> Statistics:
        """What the texts of the last forward pass have cost so far, all turns of a conversation and what was read for it among them."""
        if not self._sessions:
            raise ValueError("statistics: expected a forward pass before, found none")
        return Statistics.of(self._sessions)

    def __enter__(self) -> Pruning:
        self.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self.disable()

    def enable(self) -> None:
        model = self.decoder.model
        if isinstance(getattr(model.forward, "__self__", None), Pruning):
            raise ValueError("prune: expected a model that is not pruned yet, found one within another prune")
        own = {"forward": self.forward, "_prepare_cache_for_generation": self._prepare_cache, "_prefill": self._prefill}
        self._before = {name: model.__dict__[name] for name in own if name in model.__dict__}
        self._dense = {name: getattr(model, name) for name in own}
        for name, function in own.items():
            setattr(model, name, function)

    def disable(self) -> None:
        model = self.decoder.model
        for name in self._dense:
            if name in self._before:
                setattr(model, name, self._before[name])
            else:
                delattr(model, name)
        self._dense = {}

    # In the place of the model's own.

    @torch.inference_mode(False)  # a cache may be filled within inference mode, and go on outside of it
    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        past_key_values: PrunedCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """input_ids (batch, columns): new ones; attention_mask (batch, columns so far): 0 where a column is padding. The logits are those of
        the last `logits_to_keep` columns, 0: of all, which drops no new token; those of padding are 0."""
        if input_ids is None or input_ids.ndim != 2 or input_ids.shape[1] == 0:
            raise ValueError(f"input_ids: expected (batch, columns), found {None if input_ids is None else tuple(input_ids.shape)}")
        unknown = sorted(name for name, value in kwargs.items() if value is not None and value is not False and name != "cache_position")
        if unknown:
            raise ValueError(f"forward: expected no {', '.join(unknown)} of a pruned model, found it")
        if not isinstance(logits_to_keep, int) or logits_to_keep < 0:
            raise ValueError(f"logits_to_keep: expected a number from 0, found {logits_to_keep!r}")
        cache = self.cache() if past_key_values is None else self._own(past_key_values)
        ids = input_ids.cpu().numpy()
        before, columns = cache.mask.shape[1], ids.shape[1]
        chunk = cache.prompt_until is not None and before + columns < cache.prompt_until
        new = _new_columns(cache, ids.shape, attention_mask, chunk)
        _check_positions(cache, new, position_ids)
        prompt = before == 0 or cache.prompt_until is not None
        if not chunk:
            cache.prompt_until = None
        outputs = 0 if chunk else logits_to_keep or columns
        # Drafted tokens are checked with an output each: tokens of the text that goes on, as a single one is.
        phase = c.PREFILL if prompt or outputs < columns else c.DECODE
        model = self.decoder.model
        with self._turn:
            hidden = self._run(cache, ids, new, phase, outputs)
        if hidden is None:  # a chunk, whose logits nobody asks for
            logits = torch.zeros(len(ids), 1, model.config.vocab_size, dtype=model.dtype, device=model.device)
        else:
            logits = model.lm_head(model.model.norm(hidden))
            if self.trace is not None:
                self.trace.finish(logits[0, -1])
        self._sessions = [text.session for text in cache.texts]
        result = CausalLMOutputWithPast(logits=logits, past_key_values=cache if use_cache is not False else None)
        return result if return_dict is not False else result.to_tuple()

    def _own(self, cache: object) -> PrunedCache:
        if not isinstance(cache, PrunedCache):
            raise ValueError(f"past_key_values: expected the PrunedCache of a pruned model, found {type(cache).__name__}")
        cache.expect(self.policy, self.decoder)
        return cache

    def _run(self, cache: PrunedCache, ids: np.ndarray, new: np.ndarray, phase: int, outputs: int) -> torch.Tensor | None:
        """The hidden states (batch, outputs, hidden) of the last columns; None of a chunk."""
        tokens = [row[here].astype(np.uint32) for row, here in zip(ids, new)]
        step = Step(self.decoder, cache, self.scorer)
        if self.trace is not None:
            self.trace.begin(tokens, len(self.decoder.windows))
        before = cache.mask
        cache.begin(new)
        try:
            look = self.trace.look if self.trace is not None else lambda *_: None
            rows = step.run(tokens, phase, outputs, look) if new.any() else []  # a chunk may be padding alone
        except BaseException:
            cache.mask = before
            if before.shape[1] == 0:
                cache.reset()
            if self.trace is not None:
                self.trace.abandon()
            raise
        if not rows:
            return None
        if new[:, new.shape[1] - outputs :].all():
            return torch.stack(rows)
        hidden = rows[0].new_zeros(len(rows), outputs, rows[0].shape[1])
        for i, r in enumerate(rows):
            columns = np.flatnonzero(new[i])[-len(r) :] - (new.shape[1] - outputs)
            inside = columns >= 0
            hidden[i, torch.from_numpy(columns[inside]).to(hidden.device)] = r[torch.from_numpy(inside).to(hidden.device)]
        return hidden

    def _prepare_cache(self, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        self._sessions = []  # nothing of the texts before is held while others are read
        if model_kwargs.get("past_key_values") is not None:
            self._own(model_kwargs["past_key_values"])
            self._dense["_prepare_cache_for_generation"](generation_config, model_kwargs, *args, **kwargs)
        elif generation_config.cache_implementation not in (None, "dynamic"):
            raise ValueError(f"cache_implementation: expected none, found {generation_config.cache_implementation}")
        elif generation_config.use_cache is not False:
            model_kwargs["past_key_values"] = self.cache()

    def _prefill(self, input_ids: torch.Tensor, generation_config: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The prompt, or the next turn of a conversation, whole or in chunks (prefill_chunk_size)."""
        cache = model_kwargs.get("past_key_values")
        if not isinstance(cache, PrunedCache):
            return self._dense["_prefill"](input_ids, generation_config, model_kwargs, *args, **kwargs)
        # As transformers tells a whole text, whose beginning the cache has, from the new tokens alone: by the mask's width.
        past, given, mask = cache.get_seq_length(), input_ids.shape[1], model_kwargs.get("attention_mask")
        total = getattr(generation_config, "_mask_length", given) if mask is None else mask.shape[1]
        if total == given:
            if given <= past:
                raise ValueError(f"input_ids: expected more than the {past} columns that the cache has, found {given}")
            _check_same_text(cache, input_ids)
        cache.prompt_until = total if total == given else past + given
        try:
            return self._dense["_prefill"](input_ids, generation_config, model_kwargs, *args, **kwargs)
        finally:
            cache.prompt_until = None


def _new_columns(cache: PrunedCache, shape: tuple[int, int], attention_mask: torch.Tensor | None, chunk: bool) -> np.ndarray:
    """(batch, new columns): True where there is a token."""
    batch, columns = shape
    before = cache.mask.shape[1]
    if cache.texts and len(cache.texts) != batch:
        raise ValueError(f"input_ids: expected a batch of {len(cache.texts)}, as the cache has it, found {batch}")
    if attention_mask is None:
        return np.ones(shape, bool)
    if tuple(attention_mask.shape) != (batch, before + columns):
        raise ValueError(f"attention_mask: expected ({batch}, {before + columns}), found {tuple(attention_mask.shape)}")
    single = before > 0 and columns == 1  # as `generate` goes on: no look back, and little to wait for with every token
    mask = (attention_mask[:, -1:] if single else attention_mask).cpu().numpy() != 0
    if not single and before and not np.array_equal(mask[:, :before], cache.mask):
        raise ValueError("attention_mask: expected the columns of the cache as they were, found others")
    if not chunk and not mask[:, -1].all():
        raise ValueError("attention_mask: expected padding on the left, found a text that does not end in the last column")
    return mask[:, -columns:]


def _check_same_text(cache: PrunedCache, input_ids: torch.Tensor) -> None:
    """A prompt begins with what the cache has read."""
    ids = input_ids[:, : cache.mask.shape[1]].cpu().numpy()
    for i, (row, mask, text) in enumerate(zip(ids, cache.mask, cache.texts)):
        other = np.flatnonzero(row[mask] != text.ids)
        if len(other):
            column = int(np.flatnonzero(mask)[other[0]])
            raise ValueError(
                f"past_key_values: expected a cache that has read what input_ids begin with, found another token at column {column} of text {i}"
                " (a cache goes on with its text; copy.deepcopy(cache) asks twice)"
            )


def _check_positions(cache: PrunedCache, new: np.ndarray, position_ids: torch.Tensor | None) -> None:
    """Tokens are where they stand in their text; a model that was told otherwise would compute something else. A single column is what
    `generate` counts itself."""
    if position_ids is None or new.shape[1] == 1:
        return
    known = cache.mask.sum(1, keepdims=True) if cache.mask.size else np.zeros((len(new), 1), int)
    expected = known + np.cumsum(new, 1) - 1
    found = np.broadcast_to(position_ids.cpu().numpy(), new.shape)
    if not np.array_equal(found[new], expected[new]):
        raise ValueError("position_ids: expected each token's place in its text, found others")
