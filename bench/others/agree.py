#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares `lazyprune` with transformers and llama.cpp on models on this disk, and prints the first difference of each check.

  agree.py [--program build/examples/lazyprune] MODEL...     a MODEL is a folder, or a GGUF file

A folder is compared with transformers: token ids, rendered chats, end tokens, and greedy tokens in float32. For some models transformers
does not use tokenizer.json, but a tokenizer of its own. If this tokenizer and tokenizer.json give different ids, those of tokenizer.json are right.

A GGUF file is compared with llama.cpp. Its greedy tokens are compared with transformers first, because transformers computes with the
dequantized weights and llama.cpp rounds activations. But transformers guesses settings that a GGUF file does not store. If transformers cannot
load the file, or if its tokens differ from ours, our tokens are also compared with llama.cpp. If our tokens are the same as llama.cpp's, a
difference from transformers does not count. One difference is known: with `qwen2` files, llama.cpp does not compose characters (NFC) as Qwen's
tokenizer.json does.

The first difference of greedy tokens is a `tie` if the peer's two best logits at this token differ by less than --gap (transformers) or
--rounded-gap (llama.cpp), in standard deviations of the logits. Tokens after a tie are not compared.

Needs transformers with torch (and gguf and accelerate for GGUF files), or llama-cpp-python, or both. Checks that need a missing package are
reported as not tried.

Prints a markdown table, and for each difference the command that shows our side. Exit code 0: no difference; 1: the program or
a model does not exist; 2: a difference, or a wrong flag.
"""

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))  # peer_llama_cpp

TEXTS = [
    "Hello world",
    " a leading space, and a trailing one ",
    "  two  spaces   three\n\n\nlines\t\ttabs\r\n",
    "Don't stop: it's they'll WE'VE I'M",
    "0 12 345 6789 1234567890 3.14159 1e-5 2024-07-26",
    "for (int i = 0; i < n; ++i) { x[i] += y[i] * 2; } // end",
    "Größe, naïve café, Ångström, ﬁne, e\u0301",
    "Привет мир. Γειά σου Κόσμε. שלום עולם. مرحبا بالعالم",
    "你好，世界。こんにちは世界。안녕하세요 세계. สวัสดีชาวโลก",
    "👍🏽 👨‍👩‍👧‍👦 🇩🇪 \u200b\u00a0\u3000|",
    "https://example.org/a?b=c&d=%20#e user@example.org",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ________ ........ ========",
    "",
    "\n",
]
MARKERS = "<s> </s> <bos> <eos> <|endoftext|> <|im_start|> <|im_end|> <|eot_id|> <start_of_turn> <end_of_turn> <tool_call> </think> [INST]".split()
SPECIAL_TEXTS = [f"say {marker}x {marker} end{marker}" for marker in MARKERS]
CHATS = [
    [{"role": "user", "content": "Where did the council meet?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Who?\n"}],
    [{"role": "user", "content": "One"}, {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}],
]
PASSAGE = "The old council met in the hall beside the river, and nobody who came there in the winter of 1847 forgot what was said. " * 40
LENGTHS = (12, 600)  # tokens of the prompts: one fits into any sliding window, one exceeds most
NEW_TOKENS = 16


class NotTried(Exception):
    """The reason why a check cannot be made."""


def short(text):
    """Returns an exception or a message as one line for a table cell."""
    line = " ".join(str(text).split()).replace("|", "\\|")
    return line if len(line) <= 200 else line[:197] + "..."


def threads():
    return len(os.sched_getaffinity(0))


# Ours.


def refused(said):
    return NotTried(f"lazyprune: {short(said.removeprefix('lazyprune: '))}")


class Program:
    def __init__(self, program, model):
        self.program, self.model = program, model

    def command(self, name, *words):
        return [self.program, name, "-m", self.model, *words]

    def call(self, name, *words, stdin=None):
        return subprocess.run(self.command(name, *words), input=stdin, capture_output=True, encoding="utf-8", timeout=1800)

    def tokenize(self, requests, *flags):
        """Returns an object per request, as `lazyprune tokenize --jsonl` prints it."""
        done = self.call("tokenize", "--jsonl", "-", *flags, stdin="".join(json.dumps(request) + "\n" for request in requests))
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if len(answers) != len(requests):
            raise refused(done.stderr)
        return answers

    @functools.cached_property
    def report(self):
        """Returns the object that `lazyprune inspect --json` prints. If the command fails, as for a tokenizer without a model, the object has only
        the key `supported`, with the error message."""
        done = self.call("inspect", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {"supported": done.stderr}

    def ends(self):
        """Returns the tokens that end a generation. A model without a tokenizer has only those of its config."""
        config, tokenizer = self.report.get("config"), self.report.get("tokenizer")
        if not config:
            raise refused(self.report["supported"])
        return sorted(tokenizer["end_of_generation"] if tokenizer else config["eos"])

    def greedy_words(self, ids, count):
        given = ",".join(map(str, ids))
        return ["--ids", given, "-n", str(count), "--policy", "dense", "--dtype", "f32", "--exact", "--ignore-eos", "--json"]

    def greedy(self, ids, count):
        done = self.call("run", "-t", str(threads()), *self.greedy_words(ids, count))
        if done.returncode:
            raise refused(done.stderr)
        return json.loads(done.stdout)["tokens"]


# The peers. Each has `ids(text, special)`, `file_ids(text, special)`, `template()`, `render(chat)`, `ends()` and `greedy(ids, count)`.
# `greedy` returns pairs of a token and the gap between the two best logits, in standard deviations of the logits.


class Transformers:
    name = "transformers"

    def __init__(self, path):
        try:
            import torch  # noqa: F401
            import transformers
        except ImportError as error:
            raise NotTried(f"{error.name or 'transformers'} is not installed") from error
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.path = pathlib.Path(path)
        self.is_file = self.path.is_file()

    @functools.cached_property
    def tokenizer(self):
        import transformers

        if not any((self.path / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
            raise NotTried("the model has no tokenizer")  # without these files transformers would make up a tokenizer
        try:
            return transformers.AutoTokenizer.from_pretrained(self.path)
        except Exception as error:  # noqa: BLE001  whatever fails in AutoTokenizer, tokenizer.json may be enough
            if (self.path / "config.json").exists() or not (self.path / "tokenizer.json").exists():
                raise NotTried(f"transformers: {short(error)}") from error
            return transformers.PreTrainedTokenizerFast(tokenizer_file=str(self.path / "tokenizer.json"))

    @functools.cached_property
    def model(self):
        import torch
        import transformers

        where = {"pretrained_model_name_or_path": self.path}
        if self.is_file:
            if importlib.util.find_spec("gguf") is None:
                raise NotTried("gguf is not installed")
            where = {"pretrained_model_name_or_path": self.path.parent, "gguf_file": self.path.name}
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager")
        except Exception as error:  # noqa: BLE001  the exception's type depends on the model
            raise NotTried(f"transformers: {short(error)}") from error
        self.own_generation = model.generation_config
        model.generation_config = transformers.GenerationConfig()  # greedy without penalties, whatever the model's own config says
        return model.eval()

    def ids(self, text, special):
        words = {} if special else {"split_special_tokens": True}
        return self.tokenizer(text, **words)["input_ids"]

    def file_ids(self, text, special):
        """Returns the ids that the library `tokenizers` reads with tokenizer.json, because this library defines the file's format. Returns None if
        there is no such file."""
        import tokenizers

        if not (self.path / "tokenizer.json").exists():
            return None
        tokenizer = tokenizers.Tokenizer.from_file(str(self.path / "tokenizer.json"))
        tokenizer.encode_special_tokens = not special
        return tokenizer.encode(text).ids

    def template(self):
        return self.tokenizer.chat_template

    def render(self, chat):
        return self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)

    def ends(self):
        self.model  # noqa: B018  loads the model, which sets own_generation
        found = self.own_generation.eos_token_id
        return sorted(found if isinstance(found, list) else [] if found is None else [found])

    def greedy(self, ids, count):
        import torch

        with torch.no_grad():
            words = {"max_new_tokens": count, "do_sample": False, "output_logits": True, "return_dict_in_generate": True, "pad_token_id": 0}
            given = torch.tensor([ids])
            out = self.model.generate(given, attention_mask=torch.ones_like(given), **words)
        gaps = [-logits[0].topk(2).values.diff().item() / logits[0].std().item() for logits in out.logits]
        return list(zip(out.sequences[0, len(ids) :].tolist(), gaps))


class LlamaCpp:
    name = "llama.cpp"

    def __init__(self, path):
        try:
            import peer_llama_cpp
        except ImportError as error:
            raise NotTried("llama-cpp-python is not installed") from error
        self.peer, self.library = peer_llama_cpp, peer_llama_cpp.llama_cpp
        try:
            self.loaded, self.has_weights = peer_llama_cpp.Model(str(path)), True
        except SystemExit:
            try:
                self.loaded, self.has_weights = peer_llama_cpp.Model(str(path), vocabulary_alone=True), False
            except SystemExit as error:
                raise NotTried(str(error)) from error
        self.vocabulary = self.library.llama_model_get_vocab(self.loaded.model)

    def ids(self, text, special):
        data = text.encode()
        room = (self.library.llama_token * (len(data) + 8))()
        count = self.library.llama_tokenize(self.vocabulary, data, len(data), room, len(room), True, special)
        return room[:count]

    def file_ids(self, text, special):
        return None

    def template(self):
        found = self.library.llama_model_chat_template(self.loaded.model, None)
        return found and found.decode()

    def render(self, chat):
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter

        piece = lambda token: self.library.llama_vocab_get_text(self.vocabulary, token).decode() if token >= 0 else ""
        bos, eos = self.library.llama_vocab_bos(self.vocabulary), self.library.llama_vocab_eos(self.vocabulary)
        return Jinja2ChatFormatter(self.template(), piece(eos), piece(bos))(messages=chat).prompt

    def ends(self):
        return [token for token in range(self.loaded.vocabulary) if self.library.llama_vocab_is_eog(self.vocabulary, token)]

    def greedy(self, ids, count):
        import numpy as np

        if not self.has_weights:
            raise NotTried("llama.cpp cannot load the weights")
        context, found = self.peer.Context(self.loaded, len(ids) + count, threads()), []
        given = ids
        for _ in range(count):
            logits = np.array(context.logits(given))
            second, first = np.partition(logits, -2)[-2:]
            found.append((int(logits.argmax()), float((first - second) / logits.std())))
            given = [found[-1][0]]
        context.close()
        return found


# The comparisons.


@dataclasses.dataclass
class Row:
    check: str
    peer: str
    result: str
    differs: bool = False
    command: list[str] | None = None


def first_difference(ours, theirs):
    """The first index at which two sequences differ, or None."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    return None if at == len(ours) == len(theirs) else at


def told(sequence, at):
    return repr(sequence[at : at + 12] if isinstance(sequence, str) else sequence[at]) if at < len(sequence) else "its end"


def ids_of_texts(program, peer, check, texts, special=True, flags=()):
    row, different, otherwise = Row(check, peer.name, f"same, {len(texts)} texts"), 0, 0
    for text, answer in zip(texts, program.tokenize([{"text": text} for text in texts], *flags)):
        theirs = list(peer.ids(text, special))
        ours = answer.get("ids", [])
        at = first_difference(ours, theirs)
        if at is None:
            continue
        if ours == peer.file_ids(text, special):
            otherwise += 1
            continue
        different += 1
        if not row.differs:
            said = answer.get("error") or f"ours {told(ours, at)}, theirs {told(theirs, at)}"
            row.result = f"differs at token {at} of {short(repr(text))}: {short(said)}"
            row.differs, row.command = True, program.command("tokenize", "-p", text, "--json", *flags)
    if otherwise:
        row.result += f"; in {otherwise} of them our ids are those of tokenizer.json, and those of {type(peer.tokenizer).__name__} differ"
    if different > 1:
        row.result += f"; and in {different - 1} more of {len(texts)} texts"
    return row


def rendered_chats(program, peer):
    check = "rendered chats"
    if not peer.template():
        return Row(check, peer.name, "not tried, the model has no chat template")
    answers = program.tokenize([{"messages": chat, "add_generation_prompt": True} for chat in CHATS])
    refused = 0
    for chat, answer in zip(CHATS, answers):
        try:
            theirs = peer.render(chat)
        except Exception as error:  # noqa: BLE001  a template may refuse a chat, for example a role that it does not know
            if "error" in answer:
                refused += 1
                continue
            theirs = f"refused: {error}"
        ours = answer.get("rendered") or f"refused: {answer.get('error')}"
        at = first_difference(ours, theirs)
        if at is not None:
            said = f"differs at character {at} of {short(json.dumps(chat))}: ours {told(ours, at)}, theirs {told(theirs, at)}"
            return Row(check, peer.name, short(said), True, program.command("tokenize", "--messages", json.dumps(chat), "--json"))
    return Row(check, peer.name, f"same, {len(CHATS)} chats" + (f", {refused} of them refused by both" if refused else ""))


def end_tokens(program, peer):
    """Compares the end tokens. For a folder, we may have end tokens that transformers does not have, because some are known only by convention."""
    ours, theirs = program.ends(), peer.ends()
    more, missing = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    if missing or more and peer.name != Transformers.name:
        return Row("end tokens", peer.name, f"differs: ours {ours}, theirs {theirs}", True, program.command("inspect", "--json"))
    return Row("end tokens", peer.name, f"same, {theirs}" + (f"; ours also {more}" if more else ""))


def prompts(program):
    """Returns prompts that are beginnings of PASSAGE, as ids. For a model without a tokenizer the ids are made up. Raises NotTried if the
    model cannot run here, if it has no weights, or if two copies in float32 do not fit into memory."""
    config = program.report.get("config")
    if program.report["supported"] is not True:
        raise refused(program.report["supported"])
    needed, free = 2 * 4 * program.report["totals"]["parameters"], os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    if needed == 0:
        raise NotTried("the file has no weights")
    if needed > free:
        raise NotTried(f"float32 takes {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")
    try:
        ids = program.tokenize([{"text": PASSAGE}])[0]["ids"]
    except (NotTried, KeyError):
        ids = []
    if not ids or max(ids) >= config["vocabulary"]:
        ids = [(7919 * i + 11) % config["vocabulary"] for i in range(max(LENGTHS))]
    lengths = {min(length, len(ids), config["max_positions"] - NEW_TOKENS) for length in LENGTHS}
    return [ids[:length] for length in sorted(lengths) if length > 0]


def greedy_tokens(program, peer, gap):
    check, steps, ties = "greedy tokens", 0, []
    for ids in prompts(program):
        theirs = peer.greedy(ids, NEW_TOKENS)
        ours = program.greedy(ids, NEW_TOKENS)
        at = first_difference(ours, [token for token, _ in theirs])
        if at is None:
            steps += len(ours)
        elif at < len(theirs) and theirs[at][1] < gap:
            steps += at
            ties.append(f"token {at} after {len(ids)}, gap {theirs[at][1]:.2g}")
        else:
            said = f"ours {told(ours, at)}, theirs {told([token for token, _ in theirs], at)}"
            more = f", gap {theirs[at][1]:.2g}" if at < len(theirs) else ""
            words = program.greedy_words(ids, NEW_TOKENS)
            return Row(check, peer.name, f"differs at token {at} after {len(ids)}: {said}{more}", True, program.command("run", *words))
    return Row(check, peer.name, f"same, {steps} tokens" + (f"; tie at {'; '.join(ties)}" if ties else ""))


def tried(check, peer, make):
    try:
        return make()
    except NotTried as reason:
        return Row(check, peer, f"not tried, {reason}")


def peer_or_reason(kind, path):
    try:
        return kind(path)
    except NotTried as reason:
        return reason


def compared(program, path, gap, rounded_gap, kinds=(Transformers, LlamaCpp)):
    """Yields the table's rows for one model."""
    transformers, llama_cpp = (peer_or_reason(kind, path) for kind in kinds)
    is_gguf = pathlib.Path(path).suffix == ".gguf"
    reader, name = (llama_cpp, LlamaCpp.name) if is_gguf else (transformers, Transformers.name)

    def row(check, peer, peer_name, make):
        return Row(check, peer_name, f"not tried, {peer}") if isinstance(peer, NotTried) else tried(check, peer_name, lambda: make(peer))

    for check, texts in (("ids", TEXTS), ("ids, special tokens read", SPECIAL_TEXTS)):
        yield row(check, reader, name, lambda peer: ids_of_texts(program, peer, check, texts))
    check = "ids, special tokens spelled out"
    yield row(check, reader, name, lambda peer: ids_of_texts(program, peer, check, TEXTS + SPECIAL_TEXTS, False, ["--no-parse-special"]))
    yield row("rendered chats", reader, name, lambda peer: rendered_chats(program, peer))
    yield row("end tokens", reader, name, lambda peer: end_tokens(program, peer))
    greedy = row("greedy tokens", transformers, Transformers.name, lambda peer: greedy_tokens(program, peer, gap))
    second = []
    if is_gguf and (greedy.differs or greedy.result.startswith("not tried")):
        second = [row("greedy tokens", llama_cpp, LlamaCpp.name, lambda peer: greedy_tokens(program, peer, rounded_gap))]
        if greedy.differs and second[0].result.startswith("same"):
            greedy.differs, greedy.result = False, f"{greedy.result}; llama.cpp's tokens are the same as ours"
    yield from [greedy, *second]


def main(words=None, kinds=(Transformers, LlamaCpp)):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(HERE.parents[1] / "build/examples/lazyprune"))
    tie = "a smaller gap between transformers' two best logits is a tie; in standard deviations (default: %(default)s)"
    parser.add_argument("--gap", type=float, default=1e-3, help=tie)
    parser.add_argument("--rounded-gap", type=float, default=0.15, help="the same for llama.cpp (default: %(default)s)")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    flags = parser.parse_args(words)
    for path in (flags.program, *flags.models):
        if not os.path.exists(path):
            print(f"agree: {path}: expected a file or a folder, found none", file=sys.stderr)
            return 1

    commands = []
    print("| model | check | with | result |\n|---|---|---|---|")
    for model in flags.models:
        for row in compared(Program(flags.program, model), model, flags.gap, flags.rounded_gap, kinds):
            print(f"| {model} | {row.check} | {row.peer} | {'**' + row.result + '**' if row.differs else row.result} |", flush=True)
            commands += [row.command] if row.differs else []
    if commands:
        print("\nOur side of each difference:\n")
        for command in commands:
            print(f"    {shlex.join(command)}")
    return 2 if commands else 0


if __name__ == "__main__":
    sys.exit(main())
