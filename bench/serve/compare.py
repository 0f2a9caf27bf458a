#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `lazyprune serve` with llama-cpp-python's server: answers an hour to questions about documents, with the same GGUF file.

  compare.py MODEL.gguf [--program FILE] [--python FILE] [--document FILE] [--tokens N] [--answer N] [--documents N] [--rounds N] [FLAGS OF serve]

--python is a Python with llama-cpp-python and its server (uvicorn fastapi sse-starlette pydantic-settings starlette-context PyYAML);
default: build/peers/llama_cpp/bin/python. Both servers run all the time, with their caches, on the same processors. A client asks one after another:
each document has N tokens (default 4,000) and its own beginning, and 1, 2 or 4 questions. An answer has N tokens (default 16), greedy. Prompts are token
ids, so that both servers read the same. Each round asks both servers, each time in the other order. The table has medians over the rounds.
"""
import argparse
import http.client
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time


class Server:
    def __init__(self, command, port=None):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if port is None else subprocess.DEVNULL, text=True)
        if port is None:
            self.address = next((line.split("http://")[1].strip() for line in self.process.stderr if " at http://" in line), None)
        else:
            self.address = f"127.0.0.1:{port}"
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                if self.get("/v1/models"):
                    return
            except OSError:
                time.sleep(0.2)
        sys.exit(f"error: the server did not start: {' '.join(command)}")

    def get(self, path):
        connection = http.client.HTTPConnection(self.address)
        connection.request("GET", path)
        return connection.getresponse().read()

    def ask(self, path, **body):
        connection = http.client.HTTPConnection(self.address)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        if "choices" not in answer and "tokens" not in answer:
            sys.exit(f"error: {answer}")
        return answer

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--python", default="build/peers/llama_cpp/bin/python")
    parser.add_argument("--document", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "examples/smollm2-prompt.txt")
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--answer", type=int, default=16)
    parser.add_argument("--documents", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options, flags = parser.parse_known_args()
    threads = str(len(os.sched_getaffinity(0)))
    context = str(options.tokens + 512)
    servers = {
        "lazyprune": Server([options.program, "serve", "-m", options.model, "--port", "0", "-t", threads, "-c", context, *flags]),
        "llama-cpp-python": Server(
            [options.python, "-m", "llama_cpp.server", "--model", options.model, "--port", "8199", "--n_ctx", context, "--n_threads", threads]
            + ["--n_threads_batch", threads, "--flash_attn", "true", "--cache", "true", "--cache_type", "ram"],
            8199,
        ),
    }
    try:
        ids = servers["lazyprune"].ask("/tokenize", prompt=options.document.read_text())["tokens"]
        ids = (ids * (options.tokens // len(ids) + 1))[1 : options.tokens]
        unlike = 0

        def seconds(server, questions):
            nonlocal unlike
            start = time.monotonic()
            for _ in range(options.documents):
                unlike += 1
                for question in range(questions):
                    prompt = [1, 100 + unlike % 400, 500 + unlike // 400, *ids, *range(300 + 32 * question, 332 + 32 * question)]
                    server.ask("/v1/completions", prompt=prompt, max_tokens=options.answer, temperature=0)
            return time.monotonic() - start

        for server in servers.values():
            seconds(server, 1)  # to warm up
        print("| questions a document | " + " | ".join(f"{name}, answers an hour" for name in servers) + " | ratio |")
        print("|---:|" + "---:|" * (len(servers) + 1))
        for questions in (1, 2, 4):
            taken = {name: [] for name in servers}
            for turn in range(options.rounds):
                for name in list(servers)[:: 1 if turn % 2 == 0 else -1]:
                    taken[name].append(seconds(servers[name], questions))
            rates = [3600 * options.documents * questions / statistics.median(each) for each in taken.values()]
            print(f"| {questions} | " + " | ".join(f"{rate:,.0f}" for rate in rates) + f" | {rates[0] / rates[1]:.2f}x |", flush=True)
    finally:
        for server in servers.values():
            server.end()


main()
