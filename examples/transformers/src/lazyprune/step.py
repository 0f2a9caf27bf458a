# SPDX-License-Identifier: MIT
"""One forward pass of a batch under the plans of its sessions. Each product computes the rows of all texts together, without padding. Each
text has its own plan, its own attention, and its own evidence for the policy. The model's own layers compute. They receive fewer rows, each
with its position in the text, and the attention function of this file. That function writes the rows' keys and values to the cache and attends
over the active tokens."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from . import c, evidence
from .cache import PrunedCache, Text, with_room
from .decoder import Decoder
from .interface import attention_implementation, attention_of, attention_replaced
from .ranks import Digest

ATTENTION = "lazyprune"  # the name under which transformers finds the attention function below


class Positions:
    """Ascending positions in a text, on the host. They are copied to a device when needed there. Consecutive positions become a slice, which
    copies nothing."""

    def __init__(self, positions: np.ndarray) -> None:
        self.host = positions
        self.run = len(positions) > 0 and int(positions[-1]) - int(positions[0]) + 1 == len(positions)
        self._there: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.host)

    def tensor(self, device: torch.device) -> torch.Tensor:
        if self._there is None or self._there.device != device:
            self._there = torch.from_numpy(self.host.astype(np.int64)).to(device)
        return self._there

    def index(self, device: torch.device) -> torch.Tensor | slice:
        return slice(int(self.host[0]), int(self.host[-1]) + 1) if self.run else self.tensor(device)

    def last(self, count: int) -> Positions:
        return self if count == len(self) else Positions(self.host[len(self) - count :])

    def same(self, positions: np.ndarray) -> Positions:
        """Returns this object if it has the same positions, so that its tensor on the device is reused. Else returns a new object."""
        return self if np.array_equal(self.host, positions) else Positions(positions)


_NOWHERE = Positions(np.zeros(0, np.uint32))


@dataclasses.dataclass
class Part:
    """One text's share of the step, in the layer entered."""

    text: Text
    outputs: int
    plan: c.Plan = dataclasses.field(init=False)
    active: Positions = _NOWHERE
    rows: Positions = _NOWHERE
    finish: int = 0
    first: int = 0  # the index of the text's first row in the batch
    shown: dict[str, Any] = dataclasses.field(default_factory=dict)  # the evidence for the policy, still on the device
    masks: dict[tuple, torch.Tensor | None] = dataclasses.field(default_factory=dict)

    def enter(self, layer: int) -> c.Plan:
        self.plan = plan = self.text.session.enter(layer)
        active, rows = self.active.same(plan.active), self.rows.same(plan.rows)
        if active is not self.active or rows is not self.rows or plan.finish != self.finish:
            self.masks = {}
        self.active, self.rows, self.finish = active, rows, plan.finish
        return plan

    def visible(self, queries: Positions, window: int | None, device: torch.device) -> torch.Tensor:
        """Returns a mask (queries, active). It is True if the query sees the token. A query sees the tokens up to its own position
        that lie within the window."""
        key, query = self.active.tensor(device)[None], queries.tensor(device)[:, None]
        seen = key <= query
        return seen if window is None else seen & (key > query - window)

    def is_causal(self, window: int | None) -> bool:
        """Whether query i sees exactly the active tokens 0 to i. This is true if the layer computes the output of every active token, and the
        window hides no active token. In this case the rows' own keys and values suffice, and no mask is needed."""
        inside = window is None or not len(self.active) or int(self.active.host[-1]) - int(self.active.host[0]) < window
        return inside and self.finish == len(self.rows) == len(self.active)

    def mask(self, window: int | None, added_to: torch.Tensor | None, device: torch.device) -> torch.Tensor | None:
        """Returns a mask (1, 1, finish, active): True if the query sees the token. With `added_to`, the mask has the type of `added_to`
        and is added to the logits: 0 if the query sees the token, else the lowest number. Returns None if every query sees all tokens."""
        if (window, device) not in self.masks:
            queries = self.rows.last(self.finish)
            far = window is not None and int(queries.host[-1]) - int(self.active.host[0]) >= window
            mask = None
            if far or int(queries.host[0]) < int(self.active.host[-1]):
                mask = self.visible(queries, window, device)[None, None]
                if added_to is not None:
                    mask = added_to.new_zeros(mask.shape).masked_fill_(~mask, torch.finfo(added_to.dtype).min)
            self.masks[window, device] = mask
        return self.masks[window, device]


class _KeysWritten(Exception):
    """Leaves a layer when the keys and values of rows that need nothing else are written. The layer is called as a whole, since hooks of the
    layer may bring its inputs to its device."""


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    *,
    scaling: float,
    lazyprune: Step,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function for transformers. Takes query (1, heads, rows, head_dim), key and value (1, kv_heads, rows, head_dim), after
    RoPE. Returns (1, rows, heads, head_dim)."""
    return lazyprune.attend(module, query, key[0], value[0], scaling), None


class Step:
    """One step of all texts. `scorer` replaces the policy's scorer: it gets the attention (heads, active) and the positions (active), and returns
    the scores (active)."""

    def __init__(self, decoder: Decoder, cache: PrunedCache, scorer: Callable[..., torch.Tensor] | None) -> None:
        self.decoder, self.cache, self.scorer = decoder, cache, scorer
        self.parts: list[Part] = []
        self.keys_alone = False  # True while the attention function is called for rows that need only keys and values
        self._layer_entered = 0
        self._angles_of: tuple[list[Positions], torch.device] | None = None
        self._plans = Digest()  # of this step, if several ranks compute it

    def run(self, tokens: list[np.ndarray], phase: int, outputs: int, look: Callable[[Part, int], None]) -> list[torch.Tensor]:
        """Reads the tokens of each text. In a chunk, some texts may have no tokens. Returns for each text the hidden states (outputs, hidden) of its
        last tokens after all layers. Returns an empty list for a chunk. If the step fails, all texts forget their new tokens."""
        texts, tokens = zip(*((s, ids) for s, ids in zip(self.cache.texts, tokens) if len(ids)))
        self.parts = [Part(s, min(outputs, len(ids))) for s, ids in zip(texts, tokens)]
        for part, ids in zip(self.parts, tokens):
            part.text.session.check(len(ids), phase, outputs=part.outputs)
        self._expect_same_tokens(tokens, phase)
        known = [len(s.ids) for s in texts]
        try:
            layers = 0
            for part, ids in zip(self.parts, tokens):
                text = part.text
                text.ids = np.concatenate([text.ids, ids])
                text.make_room(len(text.ids))
                layers = text.session.begin(len(ids), phase, outputs=part.outputs)
            self._angles_of_places()
            x = self._layers(layers, look)
            self._expect_same_plans()
            for part in self.parts:
                part.text.session.finish()
        except BaseException:
            for text, before in zip(texts, known):
                text.session.abandon()
                text.ids = text.ids[:before]
            raise
        if outputs == 0 or x is None:
            return []
        return [x[part.first + len(part.rows) - part.outputs : part.first + len(part.rows)] for part in self.parts]

    def _expect_same_tokens(self, tokens: Sequence[np.ndarray], phase: int) -> None:
        """Raises RanksError if the ranks do not begin the same step. Without this check, a rank could wait for a sum over rows that another
        rank does not compute."""
        if self.decoder.ranks.count > 1:
            digest = Digest()
            for part, ids in zip(self.parts, tokens):
                digest.add((np.array([phase, part.outputs]), part.text.ids, ids))
            digest.add([np.frombuffer(self.cache.policy.encode(), np.uint8)])
            what = "policy and tokens (ranks that sample need the same seed)"
            self.decoder.ranks.expect_same(what, digest.bytes(), self.decoder.device)

    def _expect_same_plans(self) -> None:
        """Raises RanksError if a rank's plans of this step so far are not those of the other ranks."""
        self.decoder.ranks.expect_same("kept tokens", self._plans.bytes(), self.decoder.device)

    def _layers(self, layers: int, look: Callable[[Part, int], None]) -> torch.Tensor | None:
        config = self.decoder.model.config
        self._inner = attention_of(config, self.decoder.layers[0])
        self._causal_by_flag = attention_implementation(config) == "sdpa"
        x = None
        with attention_replaced(config, ATTENTION):
            for layer in range(layers):
                x = self._layer(layer, x, look)
        return x

    def _layer(self, layer: int, x: torch.Tensor | None, look: Callable[[Part, int], None]) -> torch.Tensor:
        x = self._gather(layer, x, look)
        self._layer_entered = layer
        module = self.decoder.layers[layer]
        self._read_angles(x)
        unfinished = [np.arange(p.first, p.first + len(p.rows) - p.finish) for p in self.parts]
        if not any(len(rows) for rows in unfinished):
            x = self._call(module, x, None)
        else:
            # Unfinished rows need only their keys and values. In the last layer most rows are unfinished.
            alone = torch.from_numpy(np.concatenate(unfinished)).to(x.device)
            self.keys_alone = True
            try:
                with contextlib.suppress(_KeysWritten):
                    self._call(module, x[alone], alone)
            finally:
                self.keys_alone = False
            finished = [np.arange(p.first + len(p.rows) - p.finish, p.first + len(p.rows)) for p in self.parts]
            rest = torch.from_numpy(np.concatenate(finished)).to(x.device)
            if len(rest):
                y = self._call(module, x[rest], rest)
                x = x.to(y.device).index_copy(0, rest.to(y.device), y)
        self._leave(x)
        return x

    def _call(self, module: torch.nn.Module, x: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
        y = module(x[None], use_cache=False, **self._words(rows))
        return (y[0] if isinstance(y, tuple) else y)[0]

    def _words(self, rows: torch.Tensor | None) -> dict[str, Any]:
        """Returns the layer's keyword arguments for these rows of the batch, or for all rows if `rows` is None."""
        cos, sin = self._cos, self._sin
        if rows is not None:
            cos, sin = cos[:, rows], sin[:, rows]
        return {"position_embeddings": (cos, sin), "attention_mask": None, "lazyprune": self}

    def _angles_of_places(self) -> None:
        """Computes the RoPE angles of all positions for which the texts have room, unless the cache already has those of the known tokens. If
        the frequencies depend on the text's length, computes the angles of the known tokens in every step."""
        known = max(len(p.text.ids) for p in self.parts)
        if self.decoder.angles_by_length or self.cache.angles is None or self.cache.angles[0].shape[1] < known:
            places = known if self.decoder.angles_by_length else max(p.text.room for p in self.parts)
            self.cache.angles = self.decoder.angles(places)

    def _read_angles(self, x: torch.Tensor) -> None:
        """Sets the cosines and sines of the batch's rows, by each row's position in its text."""
        rows = [p.rows for p in self.parts]
        if self._angles_of == (rows, x.device):
            return
        assert self.cache.angles is not None
        cos, sin = self.cache.angles
        index = rows[0].index(cos.device) if len(rows) == 1 else torch.cat([r.tensor(cos.device) for r in rows])
        self._cos, self._sin, self._angles_of = cos[:, index].to(x.device), sin[:, index].to(x.device), (rows, x.device)

    def _gather(self, layer: int, x: torch.Tensor | None, look: Callable[[Part, int], None]) -> torch.Tensor:
        """Returns the inputs (rows, hidden) of the layer's rows: from the embedding table, the layer before, the Aux Cache, and the waiting
        rows."""
        pieces, same, first = [], x is not None, 0
        scored = layer > 0 and any(part.plan.wants for part in self.parts)
        for part in self.parts:
            before, rows_before = part.first, len(part.rows)
            plan = part.enter(layer)
            look(part, layer)
            if self.decoder.ranks.count > 1:
                self._plans.add((plan.active, plan.rows, plan.origin, plan.index))
            carried = plan.origin == c.CARRIED
            index = plan.index.astype(np.int64)
            same = same and len(index) == rows_before and bool(carried.all()) and np.array_equal(index, np.arange(rows_before))
            pieces.append((part, before, plan.origin, index))
            part.first = first
            first += len(part.rows)
        if scored:  # the plans may differ from here on if the ranks' evidence differed
            self._expect_same_plans()
        if same and x is not None:
            return x
        gathered = [self._piece(part, before, origin, index, x) for part, before, origin, index in pieces]
        return gathered[0] if len(gathered) == 1 else torch.cat(gathered)

    def _piece(self, part: Part, before: int, origin: np.ndarray, index: np.ndarray, x: torch.Tensor | None) -> torch.Tensor:
        embeddings = self.decoder.model.get_input_embeddings()

        def read(place: int, index: np.ndarray) -> torch.Tensor:
            if place == c.EMBEDDING:
                return embeddings(torch.from_numpy(part.text.ids[index].astype(np.int64)).to(self.decoder.device))
            assert x is not None  # before layer 0 there are only embeddings
            memory = {c.STORED: part.text.stored, c.WAITING: part.text.waiting}[place][x.device] if place != c.CARRIED else x
            return memory.index_select(0, torch.from_numpy(index + (before if place == c.CARRIED else 0)).to(memory.device))

        places = np.unique(origin).tolist() or [c.CARRIED]  # if there are no rows, any origin gives an empty result
        if len(places) == 1:
            return read(places[0], index)
        out = None
        for place in places:
            here = np.flatnonzero(origin == place)
            rows = read(place, index[here])
            out = rows.new_empty(len(index), rows.shape[1]) if out is None else out
            out[torch.from_numpy(here).to(out.device)] = rows.to(out.device)
        assert out is not None
        return out

    def attend(
        self, module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        layer, device = self._layer_entered, key.device
        window = self.decoder.windows[layer]
        out = query.new_empty(1, query.shape[2], query.shape[1], query.shape[3])
        first = 0
        for part in self.parts:
            # If only some rows need the layer's output, an earlier call wrote the keys and values of the others.
            count = len(part.rows) - part.finish if self.keys_alone else part.finish
            rows = Positions(part.rows.host[:count]) if self.keys_alone else part.rows.last(count)
            here = slice(first, first + count)
            first += count
            if count == 0:
                continue
            part.text.put(layer, rows.index(device), key[:, here], value[:, here])
            if self.keys_alone:
                continue
            if part.is_causal(window):
                keys, values = key[:, here], value[:, here]
            else:
                keys, values = part.text.take(layer, part.active.index(device))
            out[0, here] = self._attend(module, part, query[:, :, here], keys, values, window, scaling)
            if part.plan.wants:
                part.shown = evidence.look(self, part, query[0, :, here], keys, values, window, scaling)
        if self.keys_alone:
            raise _KeysWritten
        return out

    def _attend(
        self,
        module: torch.nn.Module,
        part: Part,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        window: int | None,
        scaling: float,
    ) -> torch.Tensor:
        causal = self._causal_by_flag and part.is_causal(window)
        mask = None if causal else part.mask(window, None if self._causal_by_flag else query, keys.device)
        words = {"is_causal": causal and query.shape[2] > 1} if self._causal_by_flag else {}
        attended, _ = self._inner(module, query, keys[None], values[None], mask, dropout=0.0, scaling=scaling, **words)
        return attended[0]

    def _leave(self, x: torch.Tensor) -> None:
        """Shows the policies their evidence, and saves the rows that the sessions ask for. One copy brings all evidence to the host."""
        for part, shown in zip(self.parts, evidence.to_host(self, x)):
            session = part.text.session
            spills = session.leave(**shown)
            for to in (c.STORED, c.WAITING):
                for place in (c.CARRIED, c.WAITING):
                    these = spills[(spills["to"] == to) & (spills["origin"] == place)]
                    if len(these):
                        self._save(part, to, place, these, x)

    def _save(self, part: Part, to: int, place: int, spills: np.ndarray, x: torch.Tensor) -> None:
        memories = part.text.waiting if to == c.WAITING else part.text.stored
        memory, room = memories.get(x.device), int(spills["slot"].max()) + 1
        if memory is None or memory.shape[0] < room:  # grows by half
            memory = with_room(memory, room if memory is None else max(room, memory.shape[0] * 3 // 2), 0, (0, x.shape[1]), x)
        rows = spills["row"].astype(np.int64)
        source, index = (part.text.waiting[x.device], rows) if place == c.WAITING else (x, rows + part.first)
        slots = torch.from_numpy(spills["slot"].astype(np.int64)).to(x.device)
        memory.index_copy_(0, slots, source.index_select(0, torch.from_numpy(index).to(x.device)))
        memories[x.device] = memory


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, attention)
