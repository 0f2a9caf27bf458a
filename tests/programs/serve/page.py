#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the page of `lazyprune serve` in a headless Chromium.

  page.py PROGRAM
  page.py PROGRAM --pictures DIR [--model MODEL] [--document FILE] [--question TEXT]...

Types a document and questions into the page of a server with the bundled model, and checks what the page then shows. With --pictures, it only
writes screenshots, with any model. Without Chromium, it ends with status 77 (skipped).
"""
import argparse
import base64
import fcntl
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from started import TEMPLATE, expect, server

PROMPTS = pathlib.Path(__file__).resolve().parents[3] / "examples/pocket/prompts"
DOCUMENT = PROMPTS / "document.txt"
ATTACK = "<img src=x onerror=\"document.title='attacked'\"><script>document.title='attacked'</script>"
PATIENCE = 120  # seconds, for a slow machine


class Browser:
    """Chromium with one page. It reads commands from descriptor 3, and writes answers and events to descriptor 4: JSON texts that end with byte 0."""

    def __init__(self, program, folder):
        commands, answers = os.pipe(), os.pipe()
        # Both descriptors must first be above 4, so that neither takes the other's place.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands[0], answers[1])]
        os.close(commands[0])
        os.close(answers[1])
        self.to, self.answers = os.fdopen(commands[1], "wb"), os.fdopen(answers[0], "rb")
        flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe".split()
        self.process = os.posix_spawn(
            program,
            [program, *flags, f"--user-data-dir={folder}", "about:blank"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs[0], 3),
                (os.POSIX_SPAWN_DUP2, theirs[1], 4),
                (os.POSIX_SPAWN_OPEN, 2, os.path.join(folder, "stderr"), os.O_WRONLY | os.O_CREAT, 0o600),
            ],
        )
        for end in theirs:
            os.close(end)
        self.number, self.session, self.faults = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        os.waitpid(self.process, 0)

    def read(self):
        text = bytearray()
        while (byte := self.answers.read(1)) != b"\0":
            if not byte:
                raise SystemExit("failed: Chromium has ended")
            text += byte
        message = json.loads(text)
        # Collects the errors in the page's console. Each response with an error status is one. Tests of errors expect theirs.
        if message.get("method") == "Runtime.exceptionThrown":
            self.faults.append(message["params"]["exceptionDetails"])
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.faults.append(message["params"]["entry"])
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while (answer := self.read()).get("id") != self.number:
            pass
        if "error" in answer:
            raise SystemExit(f"failed: {method}: {answer['error']['message']}")
        return answer["result"]

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"failed: {script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, what, script):
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            if time.monotonic() > end:
                raise SystemExit(f"failed: waited {PATIENCE} s for {what}")
            time.sleep(0.05)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def colours(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("the page", "document.readyState === 'complete' && byId('model').textContent !== ''")

    def type(self, field, text):
        self.run(f"byId('{field}').focus(); byId('{field}').select()")
        self.call("Input.insertText", text=text)

    def click(self, button):
        self.run(f"byId('{button}').scrollIntoView()")
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])(byId('{button}').getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def choose_file(self, field, path):
        chosen = self.call("Runtime.evaluate", expression=f"byId('{field}')")["result"]["objectId"]
        self.call("DOM.setFileInputFiles", objectId=chosen, files=[str(path)])

    def press_control_enter(self):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, modifiers=2)

    def wait_for_end(self):
        self.wait("the end of the answer", "running === null")

    def last(self, selector, of="textContent"):
        return self.run(f"[...document.querySelectorAll('.turn:last-child {selector}')].map(e => e.{of})")

    def facts(self):
        return dict(zip(self.last("dt"), self.last("dd")))

    def picture(self, path):
        image = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(image))


def number(text):
    return float(text.split()[0].replace(",", ""))


def asks(page, document, question):
    """Tests a conversation. The server must prune prompts of this length."""
    page.type("most", "24")
    page.type("question", question)
    page.click("send")
    page.wait_for_end()
    facts = page.facts()
    expect("an answer is shown", page.last(".answer")[0].strip() and not page.last(".fault"))
    expect("times and a rate are shown", all(number(facts[each]) > 0 for each in ("first token", "last token", "tokens/s")))
    expect("the answer's tokens are counted", facts["answer tokens"] == "24, cut")
    expect("fewer rows than the dense model's were computed", 0 < number(facts["rows computed"]) < 100)
    pieces = page.last(".tokens span")
    expect("the picture has a piece for each token of the prompt", len(pieces) == number(facts["prompt tokens"]) > 512)
    text = "".join(pieces).replace("\u23ce\n", "\n")
    expect("the pieces are the prompt", document[:200] in text and question in text)
    shades = page.run("[...document.querySelectorAll('.tokens span')].map(e => getComputedStyle(e).backgroundColor)")
    titles = page.last(".tokens span", "title")
    expect("pruned tokens are paler", len(set(shades)) > 1 and shades[-1] != shades[len(shades) // 2])
    expect("each piece says its layers", all(title.endswith(" layers") for title in titles) and len(set(titles)) == len(set(shades)))
    expect("the document stays as it is during a conversation", page.run("byId('document').readOnly"))
    first = page.last(".answer")

    page.type("question", ATTACK)
    page.press_control_enter()
    page.wait_for_end()
    expect("Ctrl+Enter sends", page.run("document.querySelectorAll('.turn').length") == 2)
    expect("earlier turns are sent, too", number(page.facts()["prompt tokens"]) > number(facts["prompt tokens"]))
    expect("a question is text and not HTML", page.last(".question")[0] == ATTACK)
    expect("no element comes from a text", page.run("document.querySelectorAll('img, main script').length") == 0)
    expect("no script in a question runs", page.run("document.title") == "lazyprune")
    expect("the picture of an earlier answer is closed", not page.run("document.querySelector('.kept').open"))

    page.click("new")
    expect("a new conversation is empty", page.run("byId('conversation').children.length") == 0 and not page.run("byId('document').readOnly"))
    page.type("question", question)
    page.click("send")
    page.wait_for_end()
    expect("the cache serves the document a second time", number(page.facts()["cached tokens"]) > 400 and page.last(".answer") == first)
    expect("an answer from the cache has the same picture", page.last(".tokens span") == pieces and page.last(".tokens span", "title") == titles)

    page.click("new")
    page.click("prune")
    page.type("question", question)
    page.click("send")
    page.wait_for_end()
    expect("without pruning there is no picture", page.last(".answer")[0].strip() and not page.last(".kept"))
    page.click("prune")


def stops(page):
    page.click("new")
    page.type("document", "")
    page.type("most", "3000")
    page.type("question", "the old council")
    page.click("send")
    page.wait("the first token", "document.querySelector('.turn:last-child .answer')?.textContent")
    page.click("stop")
    page.wait_for_end()
    expect("Stop ends an answer", page.last(".note") == ["Stopped."] and number(page.facts()["first token"]) > 0)
    expect("the text of a stopped answer stays", page.last(".answer")[0])


def fails(page):
    page.type("most", "100000")
    page.type("question", "the old council")
    page.click("send")
    page.wait_for_end()
    expect("an error of the server is shown", "max_tokens" in page.last(".fault")[0])
    expect("after an error, the question can be sent again", page.run("byId('question').value") == "the old council")
    page.type("most", "8")
    page.click("send")
    page.wait_for_end()
    expect("a corrected request gets an answer", page.last(".answer")[0] and not page.last(".fault"))
    statuses = [fault for fault in page.faults if fault.get("source") == "network" and "400" in fault["text"]]
    expect("the console has no other error", len(page.faults) == len(statuses) == 1)
    page.faults.clear()


def fits(page):
    for width in (1200, 400):
        page.size(width, 900)
        wide = page.run("document.documentElement.scrollWidth")
        expect(f"{width} pixels are wide enough", wide <= width)
    page.size(1200, 900)


def bundled(page, program):
    document = DOCUMENT.read_text()
    question = (PROMPTS / "questions.txt").read_text().splitlines()[0]
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "chat.jinja"
        template.write_text(TEMPLATE)
        (pathlib.Path(folder) / "keys").write_text("the-key\n")
        with server(program, "-t", "1", "--chat-template-file", template) as (_, url):
            page.open(url)
            page.choose_file("file", DOCUMENT)
            page.wait("the text of the file", "byId('document').value !== ''")
            expect("a document can come from a file", page.run("byId('document').value") == document)
            asks(page, document, question)
            fits(page)
            stops(page)
            fails(page)
        with server(program, "-t", "1", "--api-key-file", pathlib.Path(folder) / "keys") as (_, url):
            page.open(url)
            expect("a server with keys asks for one", not page.run("byId('key-line').hidden") and "key" in page.run("byId('model').textContent"))
            page.faults.clear()
            page.type("key", "the-key")
            page.run("byId('key').blur()")
            page.wait("the model's name", "byId('model').textContent.startsWith('pocket')")
            page.type("document", document)
            asks(page, document, question)  # this server has no template, so the page asks for a completion of the text
            expect("with a key, the console has no error", not page.faults)


def pictures(page, program, options):
    """Writes screenshots of the answers, in light and dark colours, wide and narrow."""
    flags = ["-m", options.model] if options.model else []
    document = pathlib.Path(options.document or DOCUMENT).read_text()
    questions = options.question or (PROMPTS / "questions.txt").read_text().splitlines()
    folder = pathlib.Path(options.pictures)
    folder.mkdir(parents=True, exist_ok=True)
    with server(program, *flags) as (_, url):
        page.open(url)
        page.picture(folder / "empty.png")
        page.type("document", document)
        page.type("most", "64")
        for i, question in enumerate(questions, 1):
            page.type("question", question)
            page.click("send")
            page.wait_for_end()
            page.picture(folder / f"answer-{i}.png")
        page.run("document.querySelector('.kept').open = true; byId('conversation').scrollTop = 0")
        page.colours("dark")
        page.picture(folder / "dark.png")
        for scheme in ("dark", "light"):
            page.colours(scheme)
            page.size(400, 1600)
            page.picture(folder / f"narrow-{scheme}.png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--pictures", metavar="DIR")
    parser.add_argument("--model")
    parser.add_argument("--document")
    parser.add_argument("--question", action="append")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if not chromium:
        print("skipped: needs Chromium (chromium-headless-shell)")
        sys.exit(77)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Browser(chromium, folder)
        try:
            page.size(1200, 900)
            page.colours("light")
            if options.pictures:
                pictures(page, options.program, options)
            else:
                bundled(page, options.program)
        finally:
            page.close()


main()
