# SPDX-License-Identifier: MIT
"""What the peers share. Each engine that run.py compares lazyprune with is a class in a file of its own, peer_NAME.py, which run.py starts as a
process. So an engine can have its own Python, with packages that another one does not bear, and a crash ends one measurement.

  peer_NAME.py --about                                                   a JSON object: "name", "version", "types"
  peer_NAME.py MODELS SHAPE TYPE [-P 512,2048] [-n 32] [-t 1] [--warm-up 512]
                                                                         a JSON list of {"prompt", "prefill_s", "step_s"}
  peer_NAME.py MODELS SHAPE TYPE --logits [-t 1] < PROMPTS.json          a JSON list: the logits after each prompt, a list of token ids

MODELS is the folder that make_models.py wrote. SHAPE begins the names in it. TYPE is one of the peer's types. Before each timed prompt,
another one of at most --warm-up tokens is read. "prefill_s" is the time until the token after the prompt is known, from an empty KV cache. "step_s" is
the mean time of each of -n more tokens. An engine that is not installed ends with Python's ModuleNotFoundError.
"""
import argparse
import json
import os
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    models: str  # the folder
    shape: str
    type: str
    threads: int
    tokens: int  # of the longest sequence

    def path(self, ending: str) -> str:
        path = os.path.join(self.models, f"{self.shape}-{ending}")
        if not os.path.exists(path):
            raise SystemExit(f"{path} does not exist: make_models.py writes it")
        return path

    @property
    def gguf(self) -> str:
        return self.path(self.type.split()[0] + ".gguf")

    @property
    def hugging_face(self) -> str:
        return self.path("hf-f32" if self.type == "F32" else "hf-bf16")


class Peer:
    """One engine with weights of one type. The constructor takes a Request and loads the model."""

    name: str
    types: tuple[str, ...]  # of weights. BF16 and F32 are types whose logits are compared with ours

    @staticmethod
    def version() -> str:
        raise NotImplementedError

    def times(self, ids: list[int], count: int) -> tuple[float, float]:
        """Reads a prompt and generates `count` tokens after the first. Returns the seconds until the first, and those of each of the others."""
        raise NotImplementedError

    def logits(self, ids: list[int]) -> list[float]:
        raise NotImplementedError


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def seconds_of(read, step, count: int) -> tuple[float, float]:
    """Calls read(), then step(0) to step(count - 1). Returns the seconds of read(), and the mean seconds of a step."""
    start = time.perf_counter()
    read()
    done = time.perf_counter()
    for i in range(count):
        step(i)
    return done - start, (time.perf_counter() - done) / max(count, 1)


def prompt_of(tokens: int, start: int = 0) -> list[int]:
    """Any ids that all vocabularies of make_models.py have, without special tokens. The work does not depend on them."""
    return [259 + (start + i) * 7919 % (4096 - 259) for i in range(tokens)]


def measure(peer: Peer, prompts: list[int], generate: int, warm_up: int):
    for prompt in prompts:
        if warm_up > 0:
            peer.times(prompt_of(min(prompt, warm_up), start=1), min(generate, 2))  # other tokens, lest an engine finds them in a cache
        prefill, step = peer.times(prompt_of(prompt), generate)
        yield {"prompt": prompt, "prefill_s": prefill, "step_s": step if generate else None}


def main(engine: type[Peer]) -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engines print is not part of the answer

    parser = argparse.ArgumentParser(description=f"Measures {engine.name} on a model of make_models.py.")
    parser.add_argument("models", nargs="?")
    parser.add_argument("shape", nargs="?")
    parser.add_argument("type", nargs="?", choices=engine.types)
    parser.add_argument("--about", action="store_true", help="print the engine's name, version and types, and measure nothing")
    parser.add_argument("-P", "--prompts", type=numbers, default=[512, 2048], help="lengths of the prompts (default: 512,2048)")
    parser.add_argument("-n", "--generate", type=int, default=0, help="tokens to generate after each prompt (default: none)")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--warm-up", type=int, default=512, help="tokens read before each timed prompt, at most (default: 512)")
    parser.add_argument("--logits", action="store_true", help="print the logits after the prompts on stdin, and measure nothing")
    options = parser.parse_args()

    if options.about:
        result = {"name": engine.name, "version": engine.version(), "types": engine.types}
    elif options.type is None:
        parser.error("expected MODELS, SHAPE and TYPE, or --about")
    else:
        given = json.load(sys.stdin) if options.logits else []
        longest = max(map(len, given)) if given else max(*options.prompts, options.warm_up)
        peer = engine(Request(options.models, options.shape, options.type, options.threads, longest + options.generate + 2))
        if options.logits:
            result = [peer.logits(ids) for ids in given]
        else:
            result = list(measure(peer, options.prompts, options.generate, options.warm_up))
    json.dump(result, answer)
    answer.flush()
    os._exit(0)  # the answer is complete, so an engine cannot fail or wait on its way out
