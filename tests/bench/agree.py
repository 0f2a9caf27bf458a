#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/others/agree.py with the bundled model: agree.py PROGRAM MODEL. Fake peers take the place of transformers and
llama.cpp. They give the program's own answers, unless a test changes them."""
import contextlib
import functools
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "others"))
import agree  # noqa: E402  found through sys.path

PROGRAM, MODEL = sys.argv[1:3]
agree.LENGTHS = (12, 40)
agree.threads = lambda: 1


@functools.cache
def known_ids(model, special):
    texts = agree.TEXTS + agree.SPECIAL_TEXTS
    flags = [] if special else ["--no-parse-special"]
    answers = agree.Program(PROGRAM, model).tokenize([{"text": text} for text in texts], *flags)
    return {text: answer["ids"] for text, answer in zip(texts, answers)}


class Same:
    name = "transformers"

    def __init__(self, path):
        self.program = agree.Program(PROGRAM, path)

    def ids(self, text, special):
        return known_ids(self.program.model, special)[text]

    def file_ids(self, text, special):
        return None

    def template(self):
        return None

    def ends(self):
        return self.program.ends()

    def greedy(self, ids, count):
        return [(token, 1.0) for token in self.program.greedy(ids, count)]


def other_greedy(at, gap):
    class Other(Same):
        def greedy(self, ids, count):
            found = super().greedy(ids, count)
            found[at] = (found[at][0] + 1, gap)
            return found

    return Other


def run(kinds, model=MODEL, *flags):
    """Runs agree.py. Returns its exit code, a dictionary from the checks in its table to their results, and the lines after the table."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = agree.main(["--program", PROGRAM, *flags, model], kinds)
    lines = out.getvalue().splitlines()
    rows = [tuple(cell.strip() for cell in line.split(" | "))[1:] for line in lines[2:] if line.startswith("|")]
    return code, {check: result.removesuffix(" |") for check, _, result in rows}, [line for line in lines if line and not line.startswith("|")]


class Agree(unittest.TestCase):
    def test_a_model_agrees_with_itself(self):
        code, rows, after = run((Same, Same))
        self.assertEqual((code, after), (0, []))
        self.assertEqual(rows.pop("rendered chats"), "not tried, the model has no chat template")
        for check, result in rows.items():
            with self.subTest(check=check):
                self.assertTrue(result.startswith("same, "), result)
        self.assertEqual(rows["ids"], f"same, {len(agree.TEXTS)} texts")
        self.assertEqual(rows["greedy tokens"], f"same, {agree.NEW_TOKENS * len(agree.LENGTHS)} tokens")

    def test_ids_that_differ(self):
        class Other(Same):
            def ids(self, text, special):
                found = super().ids(text, special)
                return {agree.TEXTS[0]: found[:-1], agree.TEXTS[5]: [*found[:3], 7, *found[4:]]}.get(text, found)

        code, rows, after = run((Other, Same))
        self.assertEqual(code, 2)
        ids = Same(MODEL).ids(agree.TEXTS[0], True)
        told = f"differs at token {len(ids) - 1} of 'Hello world': ours {ids[-1]}, theirs its end; and in 1 more of {len(agree.TEXTS)} texts"
        self.assertEqual(rows["ids"], f"**{told}**")
        shown = subprocess.run(["sh", "-c", after[1]], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(shown.stdout)["ids"], ids)

    def test_the_file_decides(self):
        """If tokenizer.json gives our ids, different ids from transformers' own tokenizer are reported but do not count as a difference."""

        class Other(Same):
            tokenizer = property(lambda peer: peer)

            def ids(self, text, special):
                return [1, *super().ids(text, special)]

            def file_ids(self, text, special):
                return super().ids(text, special)

        code, rows, _ = run((Other, Same))
        self.assertEqual(code, 0)
        self.assertIn(f"; in {len(agree.TEXTS)} of them our ids are those of tokenizer.json, and those of Other differ", rows["ids"])

    def test_llama_cpp_has_a_say(self):
        """For GGUF files, a difference from transformers does not count if llama.cpp agrees with us."""
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "model.gguf"
            model.symlink_to(pathlib.Path(MODEL).resolve())
            for second, code in ((Same, 0), (other_greedy(3, 2.0), 2)):
                self.assertEqual(run((other_greedy(5, 0.25), second), str(model))[0], code)

    def test_greedy_tokens_that_differ(self):
        found = Same(MODEL).greedy(agree.prompts(agree.Program(PROGRAM, MODEL))[0], agree.NEW_TOKENS)[5][0]
        code, rows, after = run((other_greedy(5, 0.25), Same))
        self.assertEqual(code, 2)
        self.assertEqual(rows["greedy tokens"], f"**differs at token 5 after 12: ours {found}, theirs {found + 1}, gap 0.25**")
        shown = subprocess.run(["sh", "-c", after[1]], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(shown.stdout)["tokens"][5], found)

    def test_ties(self):
        for gap, flags, code in ((0.25, ("--gap", "0.3"), 0), (0.25, (), 2), (0.0005, (), 0)):
            with self.subTest(gap=gap, flags=flags):
                found, rows, _ = run((other_greedy(5, gap), Same), MODEL, *flags)
                self.assertEqual(found, code)
                if code == 0:
                    self.assertTrue(rows["greedy tokens"].startswith(f"same, 10 tokens; tie at token 5 after 12, gap {gap:.2g}; token 5 after "))

    def test_end_tokens(self):
        """Our end tokens must include all of transformers'; more are allowed."""
        report = agree.Program(PROGRAM, MODEL).report
        report = {**report, "tokenizer": {**report["tokenizer"], "end_of_generation": [2, 7]}}  # the model's config names only id 2
        for theirs, code in (([2, 7], 0), ([2], 0), ([], 0), ([2, 5], 2)):
            with self.subTest(theirs=theirs), mock.patch.object(Same, "ends", lambda peer: theirs), mock.patch.object(agree.Program, "report", report):
                found, rows, _ = run((Same, Same))
                self.assertEqual(found, code)
                self.assertIn("7", rows["end tokens"])

    def test_chats(self):
        template = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"

        class Renders(Same):
            end = ""

            def template(self):
                return template

            def render(self, chat):
                if any(message["role"] == "system" for message in chat):
                    raise ValueError("no system")
                return "".join(f"<{message['role']}>{message['content']}" for message in chat) + self.end

        class Longer(Renders):
            end = "<assistant>"

        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copytree(MODEL, pathlib.Path(folder) / "model")
            config = json.loads((model / "tokenizer_config.json").read_text())
            (model / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
            code, rows, _ = run((Renders, Same), str(model))
            self.assertEqual((code, rows["rendered chats"]), (0, f"same, {len(agree.CHATS)} chats, 1 of them refused by both"))
            code, rows, _ = run((Longer, Same), str(model))
            self.assertEqual(code, 2)
            self.assertIn("ours its end, theirs '<assistant>'", rows["rendered chats"])

    def test_models_that_cannot_be_run(self):
        """A peer must not load a model without weights, because transformers would make them up, nor a model that does not fit into memory."""
        report = agree.Program(PROGRAM, MODEL).report
        for parameters, said in ((0, "not tried, the file has no weights"), (10**15, "not tried, float32 takes 8000000.0 GB, ")):
            changed = {**report, "totals": {**report["totals"], "parameters": parameters}}
            with self.subTest(parameters=parameters), mock.patch.object(agree.Program, "report", changed):
                code, rows, _ = run((Same, Same))
                self.assertEqual(code, 0)
                self.assertTrue(rows["greedy tokens"].startswith(said), rows["greedy tokens"])

    def test_what_is_missing_is_said(self):
        with mock.patch.dict(sys.modules, {"torch": None, "transformers": None, "peer_llama_cpp": None}):
            code, rows, after = run((agree.Transformers, agree.LlamaCpp))
            self.assertEqual((code, after), (0, []))
            self.assertEqual(set(rows.values()), {"not tried, torch is not installed"})
            self.assertIsInstance(agree.peer_or_reason(agree.LlamaCpp, "model.gguf"), agree.NotTried)

    def test_files_that_are_not_there(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(agree.main(["--program", PROGRAM, "no/such/model"]), 1)
            self.assertEqual(agree.main(["--program", "no/such/program", MODEL]), 1)
        self.assertEqual(told.getvalue().count("no/such/"), 2)

    @unittest.skipUnless(importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"), "needs torch and transformers")
    def test_the_bundled_model_in_transformers(self):
        code, rows, _ = run((agree.Transformers, agree.LlamaCpp))
        self.assertEqual((code, rows["greedy tokens"]), (0, "same, 32 tokens"))
        self.assertTrue(rows["ids"].startswith("same, "))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
