#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures llama.cpp's CPU build on a GGUF file, as `lazyprune bench` measures ours, or prints the logits that it computes.

  peer_llama_cpp.py MODEL.gguf [-P 512,2048] [-n 32] [-t 1] [-r 1]   a JSON list of {"test", "threads", "tokens_per_s", "seconds"}
  peer_llama_cpp.py MODEL.gguf --logits 1,5,9                        a JSON list: the logits after the last of these tokens

Every prompt runs once to warm up and then -r times, each time from an empty KV cache. After the last run, -n tokens are generated. Needs
llama-cpp-python (pip install llama-cpp-python).
"""
import argparse
import ctypes
import json
import time

import llama_cpp


def numbers(text):
    return [int(number) for number in text.split(",")]


@llama_cpp.llama_log_callback
def say_nothing(_level, _text, _data):
    pass


class Model:
    def __init__(self, path, vocabulary_alone=False):
        llama_cpp.llama_log_set(say_nothing, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        options.vocab_only = vocabulary_alone
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), options)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp cannot load it")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))


class Context:
    """One sequence of at most `tokens` tokens. All other options are llama.cpp's defaults."""

    def __init__(self, model, tokens, threads):
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = tokens
        options.n_batch = tokens
        options.n_threads = options.n_threads_batch = threads
        self.vocabulary = model.vocabulary
        self.context = llama_cpp.llama_init_from_model(model.model, options)
        if not self.context:
            raise SystemExit(f"llama.cpp cannot make a context of {tokens} tokens")

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, ids):
        """Reads the tokens, waits for the result, and returns the logits after the last token."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)  # a name for the array, because the batch only points at it
        status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        if status != 0:
            raise SystemExit(f"llama_decode of {len(ids)} tokens: {status}")
        return llama_cpp.llama_get_logits(self.context)

    def logits(self, ids):
        return self.decode(ids)[: self.vocabulary]

    def close(self):
        llama_cpp.llama_free(self.context)


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(model, prompt, generate, threads, repetitions):
    context = Context(model, prompt + generate, threads)
    ids = [259 + i * 7919 % (model.vocabulary - 259) for i in range(prompt)]  # any ids: the work does not depend on them

    def prefill():
        context.clear()
        return seconds_of(lambda: context.decode(ids))

    prefill()
    seconds = sum(prefill() for _ in range(repetitions)) / repetitions
    yield {"test": f"pp{prompt}", "threads": threads, "tokens_per_s": prompt / seconds, "seconds": seconds}
    if generate > 0:
        seconds = seconds_of(lambda: [context.decode(ids[:1]) for _ in range(generate)])
        yield {"test": f"tg{generate}", "threads": threads, "tokens_per_s": generate / seconds, "seconds": seconds}
    context.close()


def main():
    parser = argparse.ArgumentParser(description="Measures llama.cpp's CPU build on a GGUF file.")
    parser.add_argument("model")
    parser.add_argument("-P", "--prompts", type=numbers, default=[512, 2048], help="lengths of the prompts (default: 512,2048)")
    parser.add_argument("-n", "--generate", type=int, default=0, help="tokens to generate after each prompt (default: none)")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("-r", "--repetitions", type=int, default=1)
    parser.add_argument("--logits", type=numbers, metavar="ID,...", help="print the logits after these tokens, and measure nothing")
    options = parser.parse_args()

    model = Model(options.model)
    if options.logits:
        print(json.dumps(Context(model, len(options.logits), options.threads).logits(options.logits)))
        return
    results = []
    for prompt in options.prompts:
        results += measure(model, prompt, options.generate, options.threads, options.repetitions)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
