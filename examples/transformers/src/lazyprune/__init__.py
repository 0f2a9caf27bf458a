# SPDX-License-Identifier: MIT
"""LazyLLM (arXiv 2407.14057) for models of transformers: a shorter time to the first token, without fine-tuning.

    with lazyprune.prune(model, "lazyllm --stages 9:0.7,19:0.7"):
        model.generate(...)
"""

from .c import Error, Library
from .cache import PrunedCache, Statistics
from .library import shared_library
from .pruning import Pruning, prune
from .ranks import RanksError
from .trace import TraceRecorder

__version__ = shared_library().version

__all__ = [
    "Error",
    "Library",
    "PrunedCache",
    "Pruning",
    "RanksError",
    "Statistics",
    "TraceRecorder",
    "prune",
    "shared_library",
]
