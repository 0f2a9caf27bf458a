#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `lazyprune serve` with llama-cpp-python's server: answers an hour to questions about documents, with the same GGUF file.

  compare.py MODEL.gguf [--program FILE] [--python FILE] [--document FILE] [--characters N] [--context N] [--answer N] [--documents N]
             [--rounds N] [FLAGS OF serve]

--python is a Python with llama-cpp-python and its server (uvicorn fastapi sse-starlette pydantic-settings starlette-context PyYAML);
default: build/peers/llama_cpp/bin/python. Both servers run all the time, with their caches, on the same processors. One client asks one question at a
time. Each document has --characters characters (default 16,800, about 4,000 tokens of SmolLM2) and its own beginning. It gets 1, 2 or 4 questions. An
answer has --answer tokens (default 16), chosen greedily. Each round asks both servers. Their order changes from round to round. The table has medians
over the rounds. Both servers must count the same number of tokens in a prompt.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import time

from run import Server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--python", default="build/peers/llama_cpp/bin/python")
    parser.add_argument("--document", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "examples/smollm2-prompt.txt")
    parser.add_argument("--characters", type=int, default=16800)
    parser.add_argument("--context", type=int)
    parser.add_argument("--answer", type=int, default=16)
    parser.add_argument("--documents", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options, flags = parser.parse_known_args()
    threads = str(len(os.sched_getaffinity(0)))
    context = str(options.context or options.characters // 3 + 512)
    commands = {
        "lazyprune": [options.program, "serve", "-m", options.model, "--port", "0", "-t", threads, "-c", context, *flags],
        "llama-cpp-python": [options.python, "-m", "llama_cpp.server", "--model", options.model, "--host", "127.0.0.1", "--port", "0"]
        + ["--n_ctx", context, "--n_threads", threads, "--n_threads_batch", threads, "--flash_attn", "true"]
        + ["--cache", "true", "--cache_type", "ram"],
    }
    with contextlib.ExitStack() as started:
        servers = {name: started.enter_context(Server(command)) for name, command in commands.items()}
        document = options.document.read_text()
        text = (document * (options.characters // len(document) + 1))[: options.characters]
        unlike = 0
        tokens = {}

        def seconds(name, questions):
            nonlocal unlike
            start = time.monotonic()
            for _ in range(options.documents):
                unlike += 1
                for question in ("first", "second", "third", "fourth")[:questions]:
                    prompt = f"Text {unlike}: {text}\n\nQuestion: what is the {question} city named in this text, and who lives there?\nAnswer:"
                    answer = servers[name].ask("/v1/completions", prompt=prompt, max_tokens=options.answer, temperature=0)
                    tokens[name] = answer["usage"]["prompt_tokens"]
            return time.monotonic() - start

        for name in servers:
            unlike = 0
            seconds(name, 1)  # to warm up
        if len(set(tokens.values())) > 1:
            sys.exit(f"error: the servers count different numbers of tokens in the same prompt: {tokens}")
        print(f"prompts of {tokens['lazyprune']} tokens, answers of {options.answer}\n")
        print("| questions per document | " + " | ".join(f"{name}, answers an hour" for name in servers) + " | ratio |")
        print("|---:|" + "---:|" * (len(servers) + 1))
        for questions in (1, 2, 4):
            taken = {name: [] for name in servers}
            for turn in range(options.rounds):
                for name in list(servers)[:: 1 if turn % 2 == 0 else -1]:
                    taken[name].append(seconds(name, questions))
            rates = [3600 * options.documents * questions / statistics.median(each) for each in taken.values()]
            print(f"| {questions} | " + " | ".join(f"{rate:,.0f}" for rate in rates) + f" | {rates[0] / rates[1]:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
