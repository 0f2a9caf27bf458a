#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures `lazyprune serve`: many clients, questions about one document, and the wait between tokens while long prompts arrive.

  run.py MODEL [--program FILE] [--document FILE] [--characters N] [--context-characters N] [--tokens N] [--rounds N] [--tables NAME,...] [FLAGS OF serve]

Each table is printed in Markdown, with medians over the rounds. The document is repeated until it has N characters (default: 16800, which is about
4,000 tokens of SmolLM2).

alone          one client generates 300 tokens, greedy and not as a stream, in turn with `lazyprune bench`: the tokens a second after the first.
many clients   1, 4 and 16 clients each generate N tokens (default 768) after about 512 tokens of context. The rate counts the
               tokens between two moments: every client has its first token, and the first client is done.
questions      the first and the second question about the document, pruned as the server decides and dense: the seconds to the first token, and
               the rows computed.
arriving       one client generates while another asks about documents that the server has not read: the times between the first client's tokens.
"""
import argparse
import collections
import http.client
import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor


class Server:
    """A server that the script starts, on a port that the server chooses. It writes its address to stderr."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
        self.said = collections.deque([""], maxlen=1)  # the last line of stderr
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r" (?:at|on) http://(\S+)", line):
                self.address = found[1]
                threading.Thread(target=self.said.extend, args=(self.process.stderr,), daemon=True).start()
                return
        self.process.kill()
        self.process.wait()
        sys.exit(f"error: the server did not start: {' '.join(command)}\nits last line: {self.said[0].strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def post(self, path, body):
        try:
            connection = http.client.HTTPConnection(self.address)
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
        except OSError as reason:
            sys.exit(f"error: the server does not answer: {reason}\nits last line: {self.said[0].strip()}")
        if answer.status != 200:
            sys.exit(f"error: {answer.read().decode()[:400]}")
        return answer

    def ask(self, path, **body):
        return json.load(self.post(path, body))

    def times(self, path, **body):
        """Returns the moments at which the tokens of a stream arrive."""
        moments = []
        for line in self.post(path, {**body, "stream": True}):
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and choices[0]["finish_reason"] is None and choices[0].get("text", ""):
                    moments.append(time.monotonic())
        return moments


def together(works):
    with ThreadPoolExecutor(len(works)) as pool:
        results = [pool.submit(work) for work in works]
    return [result.result() for result in results]


def alone(server, text, options):
    prompt = text[: options.context_characters]
    length = server.ask("/v1/completions", prompt=prompt, max_tokens=1, pruning=False)["usage"]["prompt_tokens"]
    rates = {"bench": [], "serve": []}
    for round in range(options.rounds):
        command = [options.program, "bench", "-m", options.model, "-P", str(length), "-n", "300", "-r", "1", "--policy", "dense", "-o", "json"]
        runs = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        rates["bench"] += [run["tokens_per_s"] for run in runs if run["test"].startswith("tg")]
        begin = time.monotonic()
        usage = server.ask("/v1/completions", prompt=f"{round} {prompt}", max_tokens=300, temperature=0, pruning=False)["usage"]
        rates["serve"].append((usage["completion_tokens"] - 1) / (time.monotonic() - begin - usage["pruning"]["seconds_to_first_token"]))
    bench, serve = (statistics.median(each) for each in rates.values())
    print(f"| | tokens/s after {length} tokens |\n|---|---:|\n| bench | {bench:.0f} |\n| serve, one client | {serve:.0f} ({serve / bench:.3f}x) |\n")


def many_clients(server, text, options):
    rates = {}
    for count in (1, 4, 16):
        rates[count] = []
        for round in range(options.rounds):
            # Each client has a text of its own, so that no prompt goes on from another.
            prompts = [f"{count} {round} {i} {text[:options.context_characters]}" for i in range(count)]
            streams = together([lambda p=p: server.times("/v1/completions", prompt=p, max_tokens=options.tokens, temperature=0.5, seed=1) for p in prompts])
            begin, end = max(s[0] for s in streams), min(s[-1] for s in streams)
            tokens = sum(sum(begin < moment <= end for moment in s) for s in streams)
            rates[count].append(tokens / (end - begin))
    print("| clients | tokens/s together | to one client |\n|---:|---:|---:|")
    one = statistics.median(rates[1])
    for count, values in rates.items():
        print(f"| {count} | {statistics.median(values):.0f} | {statistics.median(values) / one:.2f}x |")


def questions(server, text, options):
    print("\n| | tokens | cached | rows | share of the first's rows | first token, s | share of the first's time |\n|---|---:|---:|---:|---:|---:|---:|")
    for name, pruning in (("pruned", True), ("dense", False)):
        rows = {"first": [], "second": []}
        for round in range(options.rounds):
            for which in rows:
                content = f"{name} {round} {text}\n\nWhat is the {which} city named in this text?"
                answer = server.ask("/v1/chat/completions", messages=[{"role": "user", "content": content}], max_tokens=4, temperature=0, pruning=pruning)
                rows[which].append(answer["usage"])
        first = None
        for which, usages in rows.items():
            usage = usages[0]
            computed = statistics.median(u["pruning"]["rows"] for u in usages)
            seconds = statistics.median(u["pruning"]["seconds_to_first_token"] for u in usages)
            first = first or (computed, seconds)
            print(
                f"| {name}, {which} question | {usage['prompt_tokens']} | {usage['prompt_tokens_details']['cached_tokens']} | {computed:.0f} "
                f"| {computed / first[0]:.3f} | {seconds:.3f} | {seconds / first[1]:.3f} |"
            )


def arriving(server, text, options):
    print("\n| prompts arrive | median, ms | 95 % within, ms | ratio | longest, ms |\n|---|---:|---:|---:|---:|")
    for name in ("no", "yes"):
        waits = []
        for round in range(options.rounds):
            prompt = f"{round} {text[:options.context_characters]}"
            ended = threading.Event()

            def load():
                """Returns the number of answers."""
                for i in range(1000):
                    if ended.is_set():
                        return i
                    content = f"load {round} {i} {text}"
                    server.ask("/v1/chat/completions", messages=[{"role": "user", "content": content}], max_tokens=1)

            with ThreadPoolExecutor(1) as pool:
                answers = pool.submit(load) if name == "yes" else None
                try:
                    moments = server.times("/v1/completions", prompt=prompt, max_tokens=512, temperature=1, seed=round)
                finally:
                    ended.set()
            if answers and answers.result() == 0:
                sys.exit("error: no prompt arrived while the first client generated")
            waits += [1000 * (b - a) for a, b in zip(moments, moments[1:])]
        waits.sort()
        median, most = statistics.median(waits), waits[int(0.95 * len(waits))]
        print(f"| {name} | {median:.1f} | {most:.1f} | {most / median:.2f} | {waits[-1]:.0f} |")


TABLES = {table.__name__: table for table in (alone, many_clients, questions, arriving)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--document", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "examples/smollm2-prompt.txt")
    parser.add_argument("--characters", type=int, default=16800)
    parser.add_argument("--context-characters", type=int, default=2100)
    parser.add_argument("--tokens", type=int, default=768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", default=",".join(TABLES))
    options, options.flags = parser.parse_known_args()
    tables = options.tables.split(",")
    if unknown := [name for name in tables if name not in TABLES]:
        parser.error(f"--tables: {unknown[0]} is not a table: expected some of {', '.join(TABLES)}")
    document = options.document.read_text()
    text = (document * (options.characters // len(document) + 1))[: options.characters]
    with Server([options.program, "serve", "-m", options.model, "--port", "0", *options.flags]) as server:
        for name, table in TABLES.items():
            if name in tables:
                table(server, text, options)


if __name__ == "__main__":
    main()
