# SPDX-License-Identifier: MIT
"""Records what each layer of each step saw and computed, in the format that `lazyprune compare` reads (examples/VALIDATING.md)."""

from __future__ import annotations

import json
import weakref
from typing import Any

import numpy as np
import torch

from . import c
from .cache import Text


class TraceRecorder:
    """`prune(model, policy, trace=recorder)` records runs of one text. `steps` has the steps so far, and `write(path)` writes them as JSON
    Lines. The chunks of a prompt and the step that answers it are one step of the trace. Drafts are refused, since a rejected draft is no part of
    the text."""

    def __init__(self, logits: bool = False) -> None:
        self.steps: list[dict[str, Any]] = []
        self._logits = logits
        self._layers: list[dict[str, set[int]]] = []
        self._tokens: list[int] = []
        self._text: weakref.ref[Text] | None = None  # the text of the last step, which had `_known` tokens then
        self._known = 0

    def begin(self, texts: list[Text], tokens: list[np.ndarray], phase: int, layers: int) -> None:
        if len(tokens) != 1:
            raise ValueError(f"trace: expected one text, found a batch of {len(tokens)}")
        if phase == c.DECODE and len(tokens[0]) > 1:
            raise ValueError(f"trace: expected one token in a decode step, found {len(tokens[0])} (drafts cannot be recorded)")
        known = len(texts[0].ids)
        if self._text is not None and self._text() is texts[0] and known < self._known:
            raise ValueError(f"trace: expected a text that only grows, found one cut to {known} tokens (drafts cannot be recorded)")
        self._text, self._known = weakref.ref(texts[0]), known + len(tokens[0])
        self._layers = self._layers or [{"active": set(), "rows": set(), "revived": set()} for _ in range(layers)]
        self._tokens += tokens[0].tolist()

    def look(self, part: Any, layer: int) -> None:
        rows = part.rows.host
        here = self._layers[layer]
        here["active"].update(part.active.host.tolist())
        here["rows"].update(rows.tolist())
        here["revived"].update(rows[part.plan.origin == c.STORED].tolist())

    def abandon(self) -> None:
        """Drops the record of a step that failed, with all chunks of its prompt."""
        self._layers, self._tokens, self._text = [], [], None

    def finish(self, logits: torch.Tensor) -> None:
        """Ends a step. `logits` (vocabulary) are the logits of the last token."""
        layers = [{name: sorted(positions) for name, positions in layer.items()} for layer in self._layers]
        step = {"step": len(self.steps), "tokens": self._tokens, "layers": layers, "next": int(logits.argmax())}
        if self._logits:
            step["logits"] = logits.tolist()
        self.steps.append(step)
        self._layers, self._tokens = [], []

    def write(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            for step in self.steps:
                file.write(json.dumps(step) + "\n")
