#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `lazyprune sweep`, `eval` or `fidelity` on all machines of a Ray cluster, and merges the parts.

  sweep.py --out DIR [--program LAZYPRUNE] [--address ADDRESS] [--parts N] [--cpus C] [--memory BYTES] -- sweep -m MODEL -d TASK.jsonl ...

A task answers one of N parts of the samples (default: four for each task that the cluster has room for). It asks Ray for C processors, which are
also its threads, and for the memory that the model and its context take (`lazyprune inspect`). A part whose worker is lost goes on in another worker,
after the last answer in its folder, DIR/parts/K-of-N. So does a second call with the same DIR. If N changes, the answers in the old folders still
count. The program, the model, the samples, DIR and the working directory must have the same paths on all machines."""
import argparse
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import ray


def memory_of(program, arguments):
    """Returns the bytes that the model and its context take."""
    flags = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    flags.add_argument("-m", "--model", action="append")
    flags.add_argument("-c", "--ctx-size", action="append")
    known = flags.parse_known_args(arguments)[0]
    model = [part for flag, values in (("-m", known.model), ("-c", known.ctx_size)) for value in values or [] for part in (flag, value)]
    inspected = subprocess.run([program, "inspect", "--json", *model], stdout=subprocess.PIPE)
    memory = json.loads(inspected.stdout)["memory"] if inspected.returncode == 0 else sys.exit(1)  # inspect has said why
    return memory["weight_bytes"] + memory["scratch_bytes"] + memory["kv_bytes"]


def answer(command, folder):
    """Runs the program in the folder, on a worker. Returns the worker's node, when the program began and ended, and its error if the input is bad."""
    begin, libc, end_with_worker = time.time(), ctypes.CDLL(None), 1  # PR_SET_PDEATHSIG: a program that outlived its worker would lock its part
    program = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                               preexec_fn=lambda: libc.prctl(end_with_worker, signal.SIGKILL))
    errors = program.communicate()[1].strip()
    if program.returncode not in (0, 1):
        raise OSError(f"exit code {program.returncode}: {errors}")  # this machine's memory or disk, so Ray tries again
    return ray.get_runtime_context().get_node_id(), begin, time.time(), errors if program.returncode == 1 else None


def busy_share(done):
    """Returns the share of their time in which the nodes answered, until the last part began. A lost node's last part does not count."""
    last, alive = max(begin for _, begin, _ in done), {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    busy = whole = 0.0
    for node in {node for node, _, _ in done}:
        spans = [(begin, end) for of, begin, end in done if of == node]
        at_once = max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)
        until = last if node in alive else min(last, max(end for _, end in spans))
        busy += sum(max(0.0, min(end, until) - begin) for begin, end in spans)
        whole += at_once * (until - min(begin for begin, _ in spans))
    return busy / whole if whole > 0 else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage=__doc__.splitlines()[2].strip())
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--program", default="lazyprune")
    parser.add_argument("--address", help="of the cluster (default: a new one on this machine)")
    for flag, default in ("--parts", 0), ("--cpus", 1), ("--memory", 0):
        parser.add_argument(flag, type=int, default=default)
    parser.add_argument("arguments", nargs="+", metavar="COMMAND")
    args = parser.parse_args()

    sys.stdout = sys.stderr  # Ray prints there when a node is lost; stdout is for the table, which merge prints
    ray.init(address=args.address, log_to_driver=False)
    memory = args.memory or memory_of(args.program, args.arguments)
    room = [min(node["Resources"].get("CPU", 0) // args.cpus, node["Resources"].get("memory", 0) // memory) for node in ray.nodes() if node["Alive"]]
    if sum(room) < 1:
        sys.exit(f"sweep.py: expected a node with {args.cpus} processors and {memory} bytes of memory, found none")
    parts = args.parts or 4 * int(sum(room))
    folders = [args.out / "parts" / f"{k}-of-{parts}" for k in range(1, parts + 1)]
    others = [record.parent for record in sorted((args.out / "parts").glob("*-of-*/run.json")) if record.parent not in folders]
    command = [args.program, *args.arguments, "-t", str(args.cpus), "--resume", *(word for other in others for word in ("--finished", str(other)))]
    task = ray.remote(num_cpus=args.cpus, memory=memory, max_retries=20, retry_exceptions=[OSError])(answer)
    waiting = {task.remote([*command, "--part", f"{k}/{parts}", "--out", str(folder)], os.getcwd()): k for k, folder in enumerate(folders, 1)}
    done, start = [], time.time()
    while waiting:
        for ready in ray.wait(list(waiting))[0]:
            part = waiting.pop(ready)
            try:
                *span, fault = ray.get(ready)
            except ray.exceptions.RayError as lost:
                fault = getattr(lost, "cause", None) or lost
            if fault:
                sys.exit(f"sweep.py: part {part}/{parts}: {fault}")
            done.append(span)
            print(f"part {part} is done; {len(done)} of {parts} after {time.time() - start:.1f} s", file=sys.stderr, flush=True)
    print(f"while parts waited, the nodes were busy for {busy_share(done):.1%} of the time", file=sys.stderr)
    sys.exit(subprocess.run([args.program, "merge", *map(str, others + folders), "--out", str(args.out)]).returncode)


if __name__ == "__main__":
    main()
