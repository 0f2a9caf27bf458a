# SPDX-License-Identifier: MIT
"""The state of a batch of texts. Each text has a session, keys and values by position, and saved hidden states."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import Cache

from . import c
from .decoder import Decoder


def with_room(tensor: torch.Tensor | None, room: int, dim: int, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    """Returns `tensor` if its size along `dim` is at least `room`. Else returns a copy with the sizes in `shape`, but with size `room` along
    `dim`. The copy has the type and the device of `like`."""
    if tensor is not None and tensor.shape[dim] >= room:
        return tensor
    grown = like.new_empty([room if d == dim else n for d, n in enumerate(shape)])
    if tensor is not None:
        grown.narrow(dim, 0, tensor.shape[dim]).copy_(tensor)
    return grown


class Text:
    """The state of one text. A position is a token's index in the text without padding."""

    def __init__(self, session: c.Session, layers: int) -> None:
        self.session = session
        self.ids = np.zeros(0, np.uint32)  # (known)
        self.room = 0  # the number of tokens that fit in keys and values
        self.keys: list[torch.Tensor | None] = [None] * layers  # each (kv_heads, room, head_dim), after RoPE
        self.values: list[torch.Tensor | None] = [None] * layers
        # Each (slots, hidden), on the device of the layer that computed the rows.
        self.stored: dict[torch.device, torch.Tensor] = {}  # the Aux Cache
        self.waiting: dict[torch.device, torch.Tensor] = {}  # rows that chunks left for a later step

    def clone(self) -> Text:
        other = copy.copy(self)
        other.session = self.session.clone()
        other.ids = self.ids.copy()
        copied = lambda tensor: None if tensor is None else tensor.clone()
        other.keys, other.values = [copied(k) for k in self.keys], [copied(v) for v in self.values]
        other.stored = {device: rows.clone() for device, rows in self.stored.items()}
        other.waiting = {device: rows.clone() for device, rows in self.waiting.items()}
        return other

    def make_room(self, tokens: int) -> None:
        """Raises `room` to this number of tokens or more. When `room` grows, it grows by at least half, and to at least `tokens` + 256."""
        if tokens > self.room:
            self.room = max(tokens + 256, self.room * 3 // 2)

    def put(self, layer: int, rows: torch.Tensor | slice, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Writes keys and values (kv_heads, rows, head_dim) of the tokens at these positions."""
        for cache, new in ((self.keys, keys), (self.values, values)):
            cache[layer] = there = with_room(cache[layer], self.room, 1, (new.shape[0], 0, new.shape[2]), new)
            if isinstance(rows, slice):
                there[:, rows] = new
            else:
                there.index_copy_(1, rows, new)

    def take(self, layer: int, active: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns keys and values (kv_heads, active, head_dim) of the tokens at these positions. `put` must have written them."""
        keys, values = self.keys[layer], self.values[layer]
        assert keys is not None and values is not None
        if isinstance(active, slice):
            return keys[:, active], values[:, active]
        return keys.index_select(1, active), values.index_select(1, active)

    def truncate(self, tokens: int) -> None:
        self.session.truncate(tokens)
        self.ids = self.ids[:tokens]


@dataclasses.dataclass(frozen=True)
class Statistics:
    """The cost of all texts of a batch. One row is one token in one layer."""

    rows: int  # rows computed
    dense_rows: int  # rows that the dense model computes in the same steps
    revived: int  # how many of `rows` took their input from the Aux Cache, because the token had been dropped
    prefill_rows: tuple[int, ...]  # by layer, for the prompts
    prefill_dense_rows: tuple[int, ...]

    @staticmethod
    def of(sessions: Iterable[c.Session]) -> Statistics:
        rows = dense = revived = 0
        prefill: list[np.ndarray] = []
        prefill_dense: list[np.ndarray] = []
        for s in (session.statistics for session in sessions):
            rows, dense, revived = rows + s.rows, dense + s.dense_rows, revived + s.revived
            prefill.append(s.prefill_rows)
            prefill_dense.append(s.prefill_dense_rows)
        summed = lambda parts: tuple(np.sum(parts, 0).tolist()) if parts else ()
        return Statistics(rows, dense, revived, summed(prefill), summed(prefill_dense))


class PrunedCache(Cache):
    """The cache of a pruned model, used instead of DynamicCache. `generate` returns it (return_dict_in_generate) and takes it for the next turn
    (cache=). `generate` also crops and reorders the cache. copy.deepcopy forks the cache. A cache and all its forks must stay on one thread."""

    def __init__(self, library: c.Library, policy: str, decoder: Decoder) -> None:
        super().__init__(layers=[])
        self._library, self.policy, self._decoder = library, policy, decoder
        self._scratch = library.scratch()
        self.texts: list[Text] = []
        self.mask = np.zeros((0, 0), bool)  # (batch, columns): True for tokens, False for padding
        self.prompt_chunk: int | None = None  # the next columns are a prompt, to be read this many at a time; None: `generate` announced no prompt
        self.prompt_columns: int | None = None  # the width of the announced prompt; None if it has only new columns
        self.angles: tuple[torch.Tensor, torch.Tensor] | None = None  # cosines and sines (1, positions, head_dim)
        self._new_session()  # raises the error of a wrong policy at once

    def _new_session(self) -> c.Session:
        layers = len(self._decoder.windows)
        return self._library.session(self.policy, layers, 0, self._decoder.attention_after, self._scratch)

    def begin(self, new: np.ndarray) -> None:
        """Adds the columns of a step that is about to begin. `new` (batch, columns): True where there is a token."""
        if not self.texts:
            self.texts = [Text(self._new_session(), len(self._decoder.windows)) for _ in range(len(new))]
            self.mask = np.zeros((len(new), 0), bool)
        self.mask = np.concatenate([self.mask, new], 1)

    def expect(self, policy: str, decoder: Decoder) -> None:
        """Raises ValueError if the cache was made for another policy or another model."""
        if self.policy != policy or self._decoder.model is not decoder.model:
            raise ValueError(f"cache: expected a cache of this model under {policy!r}, found {self!r}")

    @property
    def statistics(self) -> Statistics:
        return Statistics.of(text.session for text in self.texts)

    # The interface that transformers expects of a cache.

    def __len__(self) -> int:
        return len(self._decoder.windows)

    def __repr__(self) -> str:
        return f"PrunedCache({self.policy!r}, batch={len(self.texts)}, columns={self.mask.shape[1]})"

    def __deepcopy__(self, memo: dict[int, Any]) -> PrunedCache:
        other = copy.copy(self)
        other.texts = [text.clone() for text in self.texts]
        other.mask = self.mask.copy()
        return other

    def update(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        raise RuntimeError("PrunedCache: expected a model within lazyprune.prune, found one that computes every token")

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.mask.shape[1]

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.mask.shape[1] + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1

    def reset(self) -> None:
        self.texts, self.mask = [], np.zeros((0, 0), bool)
        self.prompt_chunk = self.prompt_columns = None

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last -tokens_to_remove columns. A positive number is the number of columns to keep, as in earlier versions of
        transformers."""
        columns = self.mask.shape[1]
        if tokens_to_remove < -columns:
            raise ValueError(f"crop: expected a number from {-columns}, found {tokens_to_remove}")
        self.mask = self.mask[:, : tokens_to_remove if tokens_to_remove > 0 else columns + tokens_to_remove]
        for text, tokens in zip(self.texts, self.mask.sum(1).tolist()):
            text.truncate(tokens)

    def _select(self, chosen: Sequence[int]) -> None:
        """Replaces text i by the old text chosen[i]. The first choice of a text moves it, and further choices copy it."""
        taken: set[int] = set()
        selected = []
        for i in chosen:
            selected.append(self.texts[i].clone() if i in taken else self.texts[i])
            taken.add(i)
        self.texts, self.mask = selected, self.mask[list(chosen)]

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._select(beam_idx.tolist())

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._select(np.arange(len(self.texts))[indices.cpu().numpy()].tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._select([i for i in range(len(self.texts)) for _ in range(repeats)])

    def activate_past_recording(self) -> None:
        """transformers calls this before it reads drafts, since it may have to `crop` them."""
        self.is_croppable = True

    @property
    def batch_size(self) -> int:
        return len(self.texts) or -1

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return bool(self.texts)

    # A step may revive or drop earlier tokens, and crop() does not undo that. So the cache is croppable only after
    # activate_past_recording, which drafts need.
    is_croppable = False

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * len(self)

    @property
    def is_linear(self) -> list[bool]:
        return [False] * len(self)

    @property
    def is_dummy(self) -> list[bool]:
        return [False] * len(self)
