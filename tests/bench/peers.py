#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/peers/run.py with the bundled model: peers.py PROGRAM MODEL. Fake peers take the place of the engines."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peers")
sys.path.insert(0, SCRIPTS)
import run  # noqa: E402  found through sys.path

PROGRAM, MODEL = sys.argv[1:3]

FAKE = """
    import json, os, signal, sys
    sys.path.insert(0, {scripts!r})
    import peer

    class Fake(peer.Peer):
        name, types = {name!r}, ("BF16", "Q8_0", "Q4_0") if {name!r} != "plain" else ("BF16",)
        version = staticmethod(lambda: "1.0")

        def __init__(self, request):
            self.kind = request.type
            if {name!r} == "crashes" and request.type == "Q8_0":
                os.kill(os.getpid(), signal.SIGILL)

        def times(self, ids, count):
            print("noise of the engine")
            assert ids, "a prompt has tokens"
            return len(ids) / {{"BF16": 100, "Q8_0": 200, "Q4_0": 50}}[self.kind], 0.1

        def logits(self, ids):
            known = json.load(open({known!r}))[str(len(ids))]
            return known if {name!r} != "differs" else known[::-1]

    peer.main(Fake)
"""


class Peers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.symlink(os.path.abspath(MODEL), self.folder / "pocket-hf-bf16")
        for name, value in {"HERE": folder.name, "PROMPTS_OF_CHECK": [[1], [1, 300, 301, 302]]}.items():
            patch = mock.patch.object(run, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def fake(self, file, name):
        text = FAKE.format(scripts=SCRIPTS, name=name, known=str(self.folder / "known.json"))
        (self.folder / f"peer_{file}.py").write_text(textwrap.dedent(text), encoding="utf-8")

    def output(self, peers, *flags):
        words = ["run.py", str(self.folder), "--shape", "pocket", "--program", PROGRAM, "--peers", peers, "-P", "16,32", "-n", "2", "-t", "1"]
        with mock.patch.object(sys, "argv", [*words, *flags]):
            ours = run.Ours(run.parse_arguments(), "BF16").logits(run.PROMPTS_OF_CHECK)
            (self.folder / "known.json").write_text(json.dumps(dict(zip((1, 4), ours))), encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                run.main()
        return out.getvalue()

    def test_peers_that_are_had_and_not_had(self):
        self.fake("llama_cpp", "steady")
        self.fake("openvino", "differs")
        self.fake("vllm", "crashes")
        (self.folder / "peer_pytorch.py").write_text("import no_such_engine\n", encoding="utf-8")
        out = self.output("llama_cpp,pytorch,openvino,vllm", "--stages", "none", "--rounds", "2", "-o", str(self.folder / "out.json"))
        self.assertIn("- pytorch cannot be had: ModuleNotFoundError: No module named 'no_such_engine'\n", out)
        self.assertIn("- steady BF16: same next token in 2 of 2 prompts, logits apart by 0.0e+00", out)
        self.assertIn("- differs BF16 is not measured: logits apart by ", out)
        self.assertIn("- crashes Q8_0 is not measured: ended by SIGILL\n", out)
        self.assertIn("- steady: tokens/s at 16 tokens by type: Q8_0 200.0, BF16 100.0, Q4_0 50.0\n", out)
        self.assertIn("| 1 thread | weights | 16 | 32 | decode after 16 | decode after 32 |\n", out)
        self.assertIn("| steady | Q8_0 | 200.0 (1.00x) | 200.0 (1.00x) | 10.0 (1.00x) | 10.0 (1.00x) |\n", out)
        self.assertIn("| crashes | BF16 | 100.0 (0.50x) | 100.0 (0.50x) | 10.0 (1.00x) | 10.0 (1.00x) |\n", out)
        self.assertIn("- differs is not measured: it agrees with ours in no type\n", out)
        self.assertNotIn("| differs |", out)
        self.assertRegex(out, r"\| lazyprune \| BF16 \| [\d.]+ \([\d.]+x\) \|")
        samples = json.loads((self.folder / "out.json").read_text(encoding="utf-8"))
        self.assertEqual(len([sample for sample in samples if sample["engine"] == "steady"]), 4)

    def test_a_type_that_fails_the_check_leaves_the_others(self):
        os.symlink(os.path.abspath(MODEL), self.folder / "pocket-Q8_0.gguf")
        self.fake("llama_cpp", "crashes")
        out = self.output("llama_cpp", "--stages", "none", "--rounds", "1", "--types", "all", "--ours", "BF16,Q8_0")
        self.assertIn("- crashes BF16: same next token in 2 of 2 prompts, logits apart by 0.0e+00", out)
        self.assertEqual(out.count("- crashes Q8_0 is not measured: ended by SIGILL\n"), 1)
        self.assertIn("| crashes | BF16 | 100.0 (1.00x) |", out)
        self.assertIn("| crashes | Q4_0 | 50.0 (0.50x) |", out)
        self.assertNotIn("| crashes | Q8_0 |", out)

    def test_types_that_are_named(self):
        self.fake("llama_cpp", "crashes")
        out = self.output("llama_cpp", "--stages", "none", "--rounds", "1", "--types", "Q8_0,Q4_0")
        self.assertIn("- crashes Q8_0 failed in round 1: ended by SIGILL\n", out)
        self.assertIn("| crashes | Q4_0 | 50.0 (1.00x) |", out)
        self.assertNotIn("| crashes | BF16 |", out)

    def test_types_that_a_peer_does_not_have(self):
        self.fake("llama_cpp", "plain")
        self.fake("openvino", "steady")
        out = self.output("llama_cpp,openvino", "--stages", "none", "--rounds", "1", "--types", "Q4_0")
        self.assertIn("- plain is not measured: it has none of Q4_0\n", out)
        self.assertIn("| steady | Q4_0 | 50.0 (1.00x) |", out)
        with self.assertRaisesRegex(SystemExit, "^error: --types: no peer has Q4_9: expected best, all or some of BF16, Q4_0, Q8_0$"):
            self.output("llama_cpp,openvino", "--stages", "none", "--rounds", "1", "--types", "Q4_0,Q4_9")

    def test_no_warm_up(self):
        self.fake("llama_cpp", "steady")
        out = self.output("llama_cpp", "--stages", "none", "--rounds", "1", "--types", "BF16", "--warm-up", "0")
        self.assertIn("| steady | BF16 | 100.0 (1.00x) |", out)

    def test_pruned_rows(self):
        with self.assertRaisesRegex(SystemExit, "^error: lazyprune: stages"):
            self.output("llama_cpp", "--rounds", "1", "--stages", "3:nothing")
        out = self.output("llama_cpp", "--rounds", "1", "--stages", "3:0.5")
        self.assertIn("- llama_cpp cannot be had: ", out)
        self.assertRegex(out, r"\| lazyprune \| BF16 \| [\d.]+ \|")
        self.assertRegex(out, r"\| lazyprune \| BF16, 3:0.5 \| [\d.]+ \|")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
