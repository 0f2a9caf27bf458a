#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/serve/run.py with the bundled model, and compare.py with a fake server beside it: serve.py PROGRAM MODEL."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "serve"))
import compare  # noqa: E402  found through sys.path
import run  # noqa: E402

PROGRAM, MODEL = sys.argv[1:3]

# Takes the place of a Python with llama-cpp-python. Like uvicorn, it takes a free port and writes its address to stderr.
FAKE = """
    #!{python}
    import http.server, json, os, sys

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({{"choices": [], "usage": {{"prompt_tokens": {tokens}}}}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    assert sys.argv[sys.argv.index("--port") + 1] == "0"
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        print(f"INFO:     Uvicorn running on http://127.0.0.1:{{server.server_port}} (Press CTRL+C to quit)", file=sys.stderr, flush=True)
        server.serve_forever()
"""


def output(script, *flags):
    words = [script.__file__, MODEL, "--program", PROGRAM, "--rounds", "1", "--characters", "400", *flags]
    with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            script.main()
        except SystemExit as end:
            return f"{out.getvalue()}{said.getvalue()}{end}"
    return out.getvalue()


class Serve(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.started = []
        start = run.subprocess.Popen
        patch = mock.patch.object(run.subprocess, "Popen", lambda *words, **how: self.started.append(start(*words, **how)) or self.started[-1])
        patch.start()
        self.addCleanup(patch.stop)

    def tearDown(self):
        self.assertNotIn(None, [process.poll() for process in self.started])  # all have ended

    def fake(self, text):
        path = self.folder / "python"
        path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def test_tables(self):
        template = self.folder / "template"
        template.write_text("{{ messages[0].content }}", encoding="utf-8")
        out = output(run, "--tables", "many_clients,arriving", "--tokens", "64", "--context-characters", "100", "--chat-template-file", str(template))
        self.assertRegex(out, r"\n\| 16 \| -?\d+ \| -?[\d.]+x \|\n")
        self.assertRegex(out, r"\n\| yes \| [\d.]+ \| [\d.]+ \| [\d.]+ \| \d+ \|\n")

    def test_a_table_without_a_name(self):
        self.assertIn("error: --tables: arrivals is not a table: expected some of alone, ", output(run, "--tables", "alone,arrivals"))
        self.assertEqual(self.started, [])

    def test_prompts_that_the_server_refuses(self):
        out = output(run, "--tables", "arriving", "--context-characters", "100")
        self.assertRegex(out, r"error: .*expected a model with a chat template")
        self.assertNotIn("| yes |", out)

    def test_a_server_that_does_not_start(self):
        out = output(run, "--tables", "alone", "--no-such-flag")
        self.assertRegex(out, r"error: the server did not start: .*\nits last line: .*--no-such-flag")
        out = output(compare, "--python", self.fake("#!/bin/sh\necho no module named llama_cpp >&2\nexec 2>&-\nexec sleep 1000\n"))
        self.assertRegex(out, r"error: the server did not start: .*\nits last line: no module named llama_cpp")
        self.assertEqual(len(self.started), 3)

    def test_a_comparison(self):
        out = output(compare, "--answer", "1", "--python", self.fake(FAKE.format(python=sys.executable, tokens=1)))
        self.assertRegex(out, r"error: the servers count different numbers of tokens in the same prompt: {'lazyprune': \d+, 'llama-cpp-python': 1}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")  # the scripts leave it to Python to close their connections
