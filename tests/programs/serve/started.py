# SPDX-License-Identifier: MIT
"""Starts `lazyprune serve` for the tests in Python, and checks facts about it."""
import contextlib
import signal
import subprocess

# A chat template of plain words, for the bundled model, which has none.
TEMPLATE = "{% for m in messages %}{{ m.role }} : {{ m.content }} . {% endfor %}{% if add_generation_prompt %}assistant : {% endif %}"


def expect(what, fact):
    if not fact:
        raise SystemExit(f"failed: {what}")
    print(f"passed: {what}", flush=True)


@contextlib.contextmanager
def server(program, *flags):
    """Gives the process and the address of a server, which ends with the block."""
    command = [program, "serve", "--port", "0", *flags]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    try:
        url = next((line.split(" at ")[1].strip() for line in process.stderr if " at http://" in line), None)
        if url is None:
            raise SystemExit("failed: the server did not start")
        yield process, url
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    expect("SIGTERM ends the server with code 0", process.returncode == 0)
