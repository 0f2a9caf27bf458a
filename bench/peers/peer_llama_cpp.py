#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama.cpp's CPU build (pip install llama-cpp-python, which compiles it; install.py gives the build its flags)."""
import ctypes

import llama_cpp
import peer


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


class LlamaCpp(peer.Peer):
    name = "llama.cpp"
    types = ("BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K", "F32")

    @staticmethod
    def version():
        return f"llama-cpp-python {llama_cpp.__version__}"

    def __init__(self, request):
        self.model = Model(request.gguf)  # a name for it, because the context only points at it
        self.context = Context(self.model, request.tokens, request.threads)

    def times(self, ids, count):
        self.context.clear()
        return peer.seconds_of(lambda: self.context.decode(ids), lambda _: self.context.decode(ids[:1]), count)

    def logits(self, ids):
        self.context.clear()
        return self.context.logits(ids)


if __name__ == "__main__":
    peer.main(LlamaCpp)
