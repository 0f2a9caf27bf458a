# SPDX-License-Identifier: MIT
"""Wraps the names of transformers that its documentation does not promise, so that most of the package does not depend on them. README.md
gives the reason for each name. Two other files also use such names: decoder.py uses names of a model, and cache.py uses names of a cache."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from transformers import PreTrainedModel
from transformers import __version__ as VERSION
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TESTED = "5.24"  # the newest release with which the tests passed; pyproject.toml has the oldest one

_NAMES = ("cache", "past_key_values")
_FIELDS = {field.name for field in dataclasses.fields(CausalLMOutputWithPast)}
CACHE = next(name for name in _NAMES if name in _FIELDS)  # the name of the cache argument in this version of transformers


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split(".")[:2])


@functools.cache
def warn_if_newer() -> None:
    """Warns once if this release of transformers is newer than the tested ones. The warning shows the line of the caller's caller. Nothing is
    refused: if a name has changed, its use raises an error."""
    if _release(VERSION) > _release(TESTED):
        warnings.warn(
            f"lazyprune was tested with transformers up to {TESTED}, found {VERSION}: "
            'compare the policy "dense" with the model alone',
            stacklevel=3,
        )


def taken_cache(words: dict[str, Any]) -> object:
    """Removes the cache from a call's keywords, under either name, and returns it. Returns None if there is none."""
    found = [words.pop(name, None) for name in _NAMES]
    return next((cache for cache in found if cache is not None), None)


def output(logits: torch.Tensor, cache: object) -> CausalLMOutputWithPast:
    return CausalLMOutputWithPast(logits=logits, **{CACHE: cache})


def attention_implementation(config: Any) -> str:
    return config._attn_implementation


@contextlib.contextmanager
def attention_replaced(config: Any, name: str) -> Iterator[None]:
    """Within this context, the layers call the attention function that is registered under this name."""
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def attention_of(config: Any, layer: torch.nn.Module) -> Callable[..., Any]:
    """Returns the attention function with which the model was loaded."""
    eager = getattr(sys.modules[type(layer).__module__], "eager_attention_forward", None)
    return ALL_ATTENTION_FUNCTIONS.get_interface(config._attn_implementation, eager)


def tensor_parallel_group(model: PreTrainedModel) -> dist.ProcessGroup | None:
    """Returns the processes among which `from_pretrained` split the model (tp_plan). Returns None if this process has the whole model. Raises
    ValueError if the model is also split in another way."""
    mesh, count = getattr(model, "_device_mesh", None), model.tp_size or 1
    if mesh is None:
        return None
    if mesh.size() != count:
        raise ValueError(f"model: expected tensor parallel alone, found {count} tensor-parallel ranks of {mesh.size()}")
    return mesh.get_group("tp") if mesh.ndim > 1 else mesh.get_group()
