#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests `lazyprune serve` with clients that others wrote: the package openai, LangChain's ChatOpenAI, and curl.

  clients.py PROGRAM [--seconds N]

The model is the bundled one, with a template that this script writes. At the end, 32 clients send requests during N seconds (default 20), and
some of them leave before their answer ends. Each complete answer must equal the answer that the server gave to a single client. At the end, the
server may have at most 64 MiB more memory than at the start.
"""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import random
import shutil
import subprocess
import tempfile
import time

import openai

from started import TEMPLATE, expect, server

QUESTION = [{"role": "system", "content": "the council remembered"}, {"role": "user", "content": "the old quarries"}]


@contextlib.contextmanager
def templated_server(program, *flags):
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "chat.jinja"
        template.write_text(TEMPLATE)
        with server(program, "--chat-template-file", template, *flags) as started:
            yield started


def metric(client, name):
    for line in client.get("/metrics", cast_to=str, options={"headers": {"Accept": "*/*"}}).splitlines():
        if line.startswith(f"lazyprune_{name} "):
            return float(line.split()[1])
    raise SystemExit(f"failed: no metric {name}")


def with_openai(url):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    metrics = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    ask = dict(model="any", messages=QUESTION, max_tokens=12, temperature=0)
    whole = client.chat.completions.create(**ask)
    text = whole.choices[0].message.content
    expect("openai: an answer", text and whole.usage.completion_tokens == 12 and whole.choices[0].finish_reason == "length")
    parts = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    streamed = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    expect("openai: a stream has the same text", streamed == text and parts[-1].usage.total_tokens == whole.usage.total_tokens)
    likely = client.chat.completions.create(**ask, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    expect("openai: log-probabilities", len(likely) == 12 and "".join(each.token for each in likely) == text and len(likely[0].top_logprobs) == 3)
    several = client.chat.completions.create(**{**ask, "temperature": 1}, n=3, seed=7)
    expect("openai: several choices", [choice.index for choice in several.choices] == [0, 1, 2])
    stop = text[len(text) // 2 :][:5]
    cut = client.chat.completions.create(**ask, stop=[stop]).choices[0]
    expect("openai: a stop text", cut.message.content == text[: text.find(stop)] and cut.finish_reason == "stop")
    plain = client.completions.create(model="any", prompt="the old council", max_tokens=5, temperature=0)
    expect("openai: a plain completion", plain.choices[0].text)
    expect("openai: the models", [model.id for model in client.models.list()] == ["pocket"])
    pruned = client.chat.completions.create(**ask, extra_body={"pruning": {"stages": "2:0.5", "least_tokens": 0}})
    expect("openai: pruning by extra_body", pruned.usage.model_extra["pruning"]["dense_rows"] > 0)
    for name, wrong, kind in (
        ("an unsupported field", {"frequency_penalty": 1}, openai.BadRequestError),
        ("a wrong number", {"temperature": 9}, openai.BadRequestError),
        ("too many tokens", {"max_tokens": 100000}, openai.BadRequestError),
    ):
        try:
            client.chat.completions.create(**{**ask, **wrong})
            raised = None
        except openai.APIStatusError as fault:
            raised = fault
        expect(f"openai: {name} is an error that names the field", isinstance(raised, kind) and raised.param == next(iter(wrong)))
    before = metric(metrics, "answers_cancelled_total")
    stream = client.chat.completions.create(**{**ask, "max_tokens": 3500}, stream=True)
    next(iter(stream))
    stream.close()
    while metric(metrics, "answers_running") > 0:
        time.sleep(0.01)
    expect("openai: closing a stream cancels the answer", metric(metrics, "answers_cancelled_total") == before + 1)


def with_langchain(url):
    try:
        from langchain_openai import ChatOpenAI
    except ImportError:
        print("skipped: needs langchain-openai from PyPI")
        return
    model = ChatOpenAI(base_url=url + "/v1", api_key="none", model="any", temperature=0, max_tokens=10)
    answer = model.invoke([("system", "the council remembered"), ("user", "the old quarries")])
    expect("LangChain: an answer", answer.content and answer.usage_metadata["output_tokens"] == 10)
    expect("LangChain: a stream", "".join(part.content for part in model.stream("the old quarries")))


def with_curl(url):
    if not shutil.which("curl"):
        print("skipped: needs curl")
        return
    body = json.dumps({"messages": QUESTION, "max_tokens": 5, "temperature": 0, "stream": True})
    out = subprocess.run(["curl", "-sN", url + "/v1/chat/completions", "-d", body], capture_output=True, text=True, check=True).stdout
    expect("curl: a stream", out.endswith("data: [DONE]\n\n") and out.count("data: ") > 3)
    health = subprocess.run(["curl", "-s", url + "/health"], capture_output=True, text=True, check=True).stdout
    expect("curl: health", json.loads(health) == {"status": "ok"})


def resident(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise SystemExit("failed: no VmRSS")


def soak(process, url, seconds):
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=300)
    words = "the old council remembered quarries of the north and a bridge".split()
    draw = random.Random(1)
    prompts = [" ".join(draw.choice(words) for _ in range(draw.choice((5, 40, 300, 700)))) for _ in range(24)]

    def ask(prompt):
        return client.completions.create(model="any", prompt=prompt, max_tokens=16, temperature=0.7, seed=3).choices[0].text

    alone = {prompt: ask(prompt) for prompt in prompts}
    begin, end = resident(process), time.monotonic() + seconds

    def work(seed):
        mine, answers = random.Random(seed), 0
        while time.monotonic() < end:
            prompt = mine.choice(prompts)
            if mine.random() < 0.2:
                stream = client.completions.create(model="any", prompt=prompt, max_tokens=400, stream=True)
                next(iter(stream))
                stream.close()
                continue
            if ask(prompt) != alone[prompt]:
                raise SystemExit(f"failed: another answer to {prompt[:60]}")
            answers += 1
        return answers

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = sum(pool.map(work, range(32)))
    grown = resident(process) - begin
    expect(f"32 clients for {seconds} s: {answers} answers, each as alone", answers > 0)
    expect(f"the memory ends where it began ({grown / 2**20:+.0f} MiB)", grown < 64 << 20)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    with templated_server(options.program) as (_, url):
        with_openai(url)
        with_langchain(url)
        with_curl(url)
    with templated_server(options.program, "--cache-memory", "64", "-c", "2048") as (process, url):
        soak(process, url, options.seconds)


main()
