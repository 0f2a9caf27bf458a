# SPDX-License-Identifier: MIT
"""Runs a model under a policy, within a `with` block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.modeling_outputs import CausalLMOutputWithPast

from . import c, interface
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
    """Within `with prune(model, policy):` the model's forward pass and `generate` compute only the tokens that the policy's plans ask for.

    policy: a preset's name and flags, as in the program lazyprune: "lazyllm --stages 9:0.7,19:0.7", "lazyllm_blocks --stages 15:0.3 --decode
        dense", "dense". Library.policy_help() lists all names.
    scorer: your own function, which replaces the policy's last_query_attention. It gets the last query's attention (heads, active) and the
        positions of the active tokens in the text (active), both on the model's device. It returns the importance of these tokens (active).
        A larger number means a more important token. If several ranks share the heads, every rank's scorer gets all heads, and the scores of
        the first rank count.
    library: the library that knows the policy's names; shared_library() if None.
    trace: records what each layer saw and computed.

    Raises ValueError if the model's family is not supported, and Error if the policy is wrong.
    """
    interface.warn_if_newer()
    return Pruning(model, policy, scorer, library or shared_library(), trace)


class Pruning:
    """The result of `prune`. Entering a `with` block calls `enable`, and leaving it calls `disable`. Threads that use the model take turns, one
    forward pass at a time."""

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
        self._sessions: list[c.Session] = []  # the sessions of the last forward pass
        self._before: dict[str, Any] = {}  # attributes of the model instance that `enable` replaced
        self._dense: dict[str, Any] = {}  # the model's own methods of these names
        self._turn = threading.RLock()
        self.cache()  # if the policy is wrong, this raises the error
        if scorer is not None:
            text = library.policy_text(policy, len(self.decoder.windows), self.decoder.attention_after)
            if "--scorer last_query_attention" not in text:
                raise ValueError(f"scorer: expected a policy of last_query_attention, whose place it takes, found {text}")

    def cache(self) -> PrunedCache:
        """Returns an empty cache for `generate` and for the model. Pass it as cache=, or as past_key_values= before transformers 5.24."""
        return PrunedCache(self.library, self.policy, self.decoder)

    @torch.inference_mode(False)
    @torch.no_grad()
    def read(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None, cache: PrunedCache | None = None
    ) -> PrunedCache:
        """Reads new columns of token ids (batch, columns) and returns the cache. Only the layers below the first pruning layer read the columns, since a later
        question decides which tokens the other layers compute. Pass the cache or a copy (copy.deepcopy) to `generate`, with a prompt that
        begins with these columns."""
        self._expect_enabled("read")
        ids = _ids(input_ids)
        cache = self.cache() if cache is None else self._own(cache)
        new = _new_columns(cache, ids.shape, attention_mask, chunk=True)
        with self._turn, self.decoder.ranks.watched(), self._forgotten_if_it_fails(cache):
            self._run(cache, ids, new, c.PREFILL, 0)
        self._sessions = [text.session for text in cache.texts]
        return cache

    @property
    def statistics(self) -> Statistics:
        """The cost so far of the texts in the last forward pass. It includes all turns of a conversation, and what `read` computed for it."""
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
        for layer in self.decoder.layers:
            if hasattr(layer.self_attn, "masked_key_indices"):  # a press of kvpress leaves here which keys of its last prompt are hidden
                layer.self_attn.masked_key_indices = None
        own = {"forward": self.forward, "generate": self.generate, "init_continuous_batching": _refuse_continuous_batching}
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

    def _expect_enabled(self, call: str) -> None:
        if not self._dense:
            raise ValueError(f"{call}: expected a call within `with prune(...)`, found one outside")

    # The methods that replace the model's own.

    @torch.inference_mode(False)  # so that a cache that was filled in inference mode can be used outside of it
    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.LongTensor | None = None,
        cache: PrunedCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """input_ids (batch, columns): the new columns. attention_mask (batch, all columns so far): 0 where a column is padding. Returns the
        logits of the last `logits_to_keep` columns. 0 means all columns, and then no new token is dropped. The logits of padding are 0."""
        given = interface.taken_cache(kwargs) if cache is None else cache
        ids = _ids(input_ids)
        config = self.decoder.model.config  # the model reads two arguments from it if a call leaves them out
        asked = {name: getattr(config, name) for name in ("output_attentions", "output_hidden_states")} | kwargs
        unknown = sorted(name for name, value in asked.items() if value is not None and value is not False and name != "cache_position")
        if unknown:
            raise ValueError(f"forward: expected only arguments that a pruned model supports, found {', '.join(unknown)}")
        if not isinstance(logits_to_keep, int) or logits_to_keep < 0:
            raise ValueError(f"logits_to_keep: expected a number from 0, found {logits_to_keep!r}")
        cache = self.cache() if given is None else self._own(given)
        if cache.prompt_chunk is not None and ids.shape[1] - max(logits_to_keep - 1, 0) == cache.prompt_columns:
            # transformers 5.24 passes a prompt with drafts as a whole. The cache has its first columns already.
            known = cache.get_seq_length()
            ids, position_ids = ids[:, known:], None if position_ids is None else position_ids[:, known:]
        new = _new_columns(cache, ids.shape, attention_mask, chunk=False)
        _check_positions(cache, new, position_ids)
        columns = ids.shape[1]
        outputs = min(logits_to_keep or columns, columns)
        prompt = cache.mask.shape[1] == 0 or cache.prompt_chunk is not None
        # After the prompt, a step with an output for each of several columns reads drafts that `generate` checks. Drafts belong to the answer,
        # so this is a decode step, as with a single token.
        phase = c.PREFILL if prompt or outputs < columns else c.DECODE
        model = self.decoder.model
        with self._turn, self.decoder.ranks.watched(), self._forgotten_if_it_fails(cache):
            hidden = self._in_chunks(cache, ids, new, phase, outputs)
            logits = model.lm_head(model.model.norm(hidden))
        if hasattr(model, "hf_device_map"):  # as accelerate's hook of the whole model, which `enable` replaced with the model's forward
            logits = logits.to(input_ids.device)
        if self.trace is not None:
            self.trace.finish(logits[0, -1])
        self._sessions = [text.session for text in cache.texts]
        result = interface.output(logits, cache if use_cache is not False else None)
        return result if return_dict is not False else result.to_tuple()

    def generate(
        self, inputs: torch.Tensor | None = None, generation_config: GenerationConfig | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the model's own `generate` with a cache of this package. The prompt, or the next turn of a conversation, is read as a whole or
        in chunks (prefill_chunk_size)."""
        self._expect_enabled("generate")
        self._sessions = []  # releases the memory of earlier texts
        configs = (generation_config, self.decoder.model.generation_config)

        def asked(name: str) -> Any:
            values = [kwargs.get(name), *(getattr(config, name, None) for config in configs)]
            return next((value for value in values if value is not None), None)

        given = interface.taken_cache(kwargs)
        if given is None and asked("use_cache") is False:
            return self._dense["generate"](inputs, generation_config, *args, **kwargs)
        if asked("cache_implementation") not in (None, "dynamic", "dynamic_full"):  # transformers 5.2 asks assistants for the last one
            raise ValueError(f"cache_implementation: expected none, found {asked('cache_implementation')}")
        cache = self.cache() if given is None else self._own(given)
        ids = inputs if inputs is not None else kwargs.get("input_ids")
        chunk = asked("prefill_chunk_size")
        if chunk is not None and (not isinstance(chunk, int) or chunk < 1):
            raise ValueError(f"prefill_chunk_size: expected a number from 1, found {chunk!r}")
        if ids is not None:
            ids = _ids(ids)
            whole = _check_continuation(cache, ids, kwargs.get("attention_mask"))
            cache.prompt_columns = ids.shape[1] if whole else None
            cache.prompt_chunk = ids.shape[1] if chunk is None else chunk
        # This method handles these options. If they stayed, transformers would read the prompt in its own chunks and make its own cache.
        done = {name: None for name in ("cache_implementation", "prefill_chunk_size") if asked(name) is not None}
        try:
            return self._dense["generate"](inputs, generation_config, *args, **{**kwargs, **done, interface.CACHE: cache})
        finally:
            cache.prompt_chunk = cache.prompt_columns = None

    def _own(self, cache: object) -> PrunedCache:
        if not isinstance(cache, PrunedCache):
            raise ValueError(f"cache: expected the PrunedCache of a pruned model, found {type(cache).__name__}")
        cache.expect(self.policy, self.decoder)
        return cache

    @contextlib.contextmanager
    def _forgotten_if_it_fails(self, cache: PrunedCache) -> Iterator[None]:
        """If the `with` block fails, the cache forgets the columns that the block read, and the trace forgets its step."""
        before = cache.mask.shape[1]
        try:
            yield
        except BaseException:
            if before == 0:
                cache.reset()
            elif cache.mask.shape[1] > before:
                cache.crop(before)
            if self.trace is not None:
                self.trace.abandon()
            raise

    def _in_chunks(self, cache: PrunedCache, ids: np.ndarray, new: np.ndarray, phase: int, outputs: int) -> torch.Tensor:
        """Calls `_run` with cache.prompt_chunk columns at a time. The last columns yield the outputs."""
        columns = ids.shape[1]
        chunk = min(cache.prompt_chunk or columns, columns)
        cache.prompt_chunk = None
        read = 0
        while columns - read > max(chunk, outputs):
            here = slice(read, min(read + chunk, columns - outputs))
            self._run(cache, ids[:, here], new[:, here], phase, 0)
            read = here.stop
        return self._run(cache, ids[:, read:], new[:, read:], phase, outputs)

    def _run(self, cache: PrunedCache, ids: np.ndarray, new: np.ndarray, phase: int, outputs: int) -> torch.Tensor | None:
        """Computes the columns. Returns the hidden states (batch, outputs, hidden) of the last ones, or None if `outputs` is 0."""
        tokens = [row[here].astype(np.uint32) for row, here in zip(ids, new)]
        step = Step(self.decoder, cache, self.scorer)
        before = cache.mask
        cache.begin(new)
        try:
            if self.trace is not None:
                self.trace.begin(cache.texts, tokens, phase, len(self.decoder.windows))
            look = self.trace.look if self.trace is not None else lambda *_: None
            rows = step.run(tokens, phase, outputs, look) if new.any() else []  # a chunk may have only padding
        except BaseException:
            cache.mask = before
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


def _refuse_continuous_batching(*args: Any, **kwargs: Any) -> Any:
    """Takes the place of the method that generate_batch and the other ways to continuous batching call."""
    raise ValueError(
        "generate_batch: expected generate with a padded batch, found continuous batching,"
        " whose steps read and write the same tokens in every layer"
    )


def _ids(input_ids: object) -> np.ndarray:
    """Returns the ids (batch, columns) on the host."""
    if not isinstance(input_ids, torch.Tensor) or input_ids.ndim != 2 or input_ids.shape[1] == 0:
        found = tuple(input_ids.shape) if isinstance(input_ids, torch.Tensor) else None if input_ids is None else type(input_ids).__name__
        raise ValueError(f"input_ids: expected (batch, columns), found {found}")
    return input_ids.cpu().numpy()


def _new_columns(cache: PrunedCache, shape: tuple[int, int], attention_mask: torch.Tensor | None, chunk: bool) -> np.ndarray:
    """Returns a mask (batch, new columns): True for a token, False for padding."""
    batch, columns = shape
    before = cache.mask.shape[1]
    if cache.texts and len(cache.texts) != batch:
        raise ValueError(f"input_ids: expected a batch of {len(cache.texts)}, as the cache has it, found {batch}")
    if attention_mask is None:
        return np.ones(shape, bool)
    if tuple(attention_mask.shape) != (batch, before + columns):
        raise ValueError(f"attention_mask: expected ({batch}, {before + columns}), found {tuple(attention_mask.shape)}")
    single = before > 0 and columns == 1  # a decode step copies only its own column to the host, and does not compare earlier columns
    mask = (attention_mask[:, -1:] if single else attention_mask).cpu().numpy() != 0
    if not single and before and not np.array_equal(mask[:, :before], cache.mask):
        raise ValueError("attention_mask: expected the same columns as in the cache, found changed ones")
    if not chunk and not mask[:, -1].all():
        raise ValueError("attention_mask: expected padding on the left, found a text that does not end in the last column")
    return mask[:, -columns:]


def _check_continuation(cache: PrunedCache, ids: np.ndarray, attention_mask: torch.Tensor | None) -> bool:
    """Checks that a prompt continues the cache. The prompt either begins with the tokens that the cache has read, or has only new tokens and a mask
    of the whole text. As in transformers, the width of the mask tells which. Returns True in the first case."""
    past, given = cache.get_seq_length(), ids.shape[1]
    if attention_mask is not None and attention_mask.shape[1] != given:
        return False
    if cache.texts:  # for several answers to each prompt, the cache may have each text several times already
        ids = ids.repeat(max(1, len(cache.texts) // len(ids)), 0)
    if given <= past:
        raise ValueError(f"input_ids: expected more than the {past} columns that the cache has, found {given}")
    for i, (row, mask, text) in enumerate(zip(ids[:, :past], cache.mask, cache.texts)):
        other = np.flatnonzero(row[mask] != text.ids)
        if len(other):
            column = int(np.flatnonzero(mask)[other[0]])
            raise ValueError(
                f"cache: expected a cache of the first columns of input_ids, found another token at column {column} of text {i}"
                " (each call extends the cache; to ask twice, pass a copy.deepcopy(cache); beam search leaves the texts of its beams)"
            )
    return True


def _check_positions(cache: PrunedCache, new: np.ndarray, position_ids: torch.Tensor | None) -> None:
    """Raises ValueError if position_ids are not the tokens' positions in their texts, because the pruned model always uses those positions. Does
    not check a single column, since its position comes from `generate`."""
    if position_ids is None or new.shape[1] == 1:
        return
    known = cache.mask.sum(1, keepdims=True) if cache.mask.size else np.zeros((len(new), 1), int)
    expected = known + np.cumsum(new, 1) - 1
    found = np.broadcast_to(position_ids.cpu().numpy(), new.shape)
    if not np.array_equal(found[new], expected[new]):
        raise ValueError("position_ids: expected each token's place in its text, found others")
