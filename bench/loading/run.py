#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the time to load a model, and compares it with a plain read of the same files.

  run.py MODEL... [--program FILE] [--rounds N] [--disk-rate BYTES | --in-memory]

MODEL is a .gguf file or a directory. Each round measures these times:
  plain read  drops the files from the page cache and reads them to the end
  loading     drops them again and runs `lazyprune run -m MODEL --policy dense --ids 1 -n 0`, which loads the model and computes no token
  in memory   runs the same command again, now with the files in the page cache
  cat         runs `cat` on the files in the page cache
  copy        copies the files from the page cache into new memory, on all cores, and frees it. A load that packs its weights does this and
              more. It is measured after all rounds, because it slows down the next load: the system then has its free memory in other pieces.
The table has the medians, the ratio of loading to the plain read, and the ratio of loading in memory to `cat` and to the copy. With --in-memory,
only the last three are measured, so the disk does not matter.

--disk-rate limits reads to this many bytes per second. It uses a control group and needs root. Use it on virtual disks: their host may hold
the file in memory.
"""
import argparse
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time


def files_of(model):
    path = pathlib.Path(model)
    return sorted(p for p in path.iterdir() if p.suffix in (".gguf", ".safetensors")) if path.is_dir() else [path]


def drop(files):
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())  # pages that are not written yet cannot be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def read(files):
    buffer = bytearray(4 << 20)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def copy(files):
    """Copies the files to huge pages, as `lazyprune` does."""
    cores = len(os.sched_getaffinity(0))
    for path in files:
        size = path.stat().st_size
        target = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        target.madvise(mmap.MADV_HUGEPAGE)
        share = -(-size // cores)

        def copy_share(first):
            with open(path, "rb", buffering=0) as file, memoryview(target) as to:
                file.seek(first)
                for at in range(first, min(first + share, size), 1 << 20):
                    file.readinto(to[at : min(at + (1 << 20), first + share, size)])

        threads = [threading.Thread(target=copy_share, args=(first,)) for first in range(0, size, share)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def limit_disk(path, rate):
    """Puts this process and its children into a control group that reads from the file's disk at most at this rate."""
    device = os.stat(path).st_dev
    whole = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    if (whole / "partition").exists():
        whole = whole.parent
    old = pathlib.Path("/sys/fs/cgroup/blkio")
    group = (old if old.is_dir() else pathlib.Path("/sys/fs/cgroup")) / "lazyprune-loading"
    try:
        disk = (whole / "dev").read_text().strip()
        group.mkdir(exist_ok=True)
        if old.is_dir():
            (group / "blkio.throttle.read_bps_device").write_text(f"{disk} {rate}")
        else:
            (group / "io.max").write_text(f"{disk} rbps={rate}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as fault:
        sys.exit(f"error: --disk-rate: {fault}")


def main():
    parser = argparse.ArgumentParser(description="Measures the time to load a model from disk, and a plain read of its files.")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--program", default="build/examples/lazyprune")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk-rate", type=int, metavar="BYTES")
    parser.add_argument("--in-memory", action="store_true")
    options = parser.parse_args()

    for model in options.models:
        if not files_of(model):
            sys.exit(f"error: {model}: expected .gguf or .safetensors files, found none")
        if options.disk_rate:
            limit_disk(files_of(model)[0], options.disk_rate)
    heads = ["in memory, s", "cat, s", "ratio", "copy, s", "ratio"]
    if not options.in_memory:
        heads = ["plain read, s", "loading, s", "ratio", *heads]
    print(f"| model | GB | {' | '.join(heads)} |")
    print("|---|" + "---:|" * (1 + len(heads)))
    for model in options.models:
        files = files_of(model)

        def load():
            command = [options.program, "run", "-m", model, "--policy", "dense", "--ids", "1", "-n", "0", "--json"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        def cat():
            subprocess.run(["cat", *files], check=True, stdout=subprocess.DEVNULL)

        cat()
        times = []  # (rounds, what): in the order of the columns, without the ratios
        for _ in range(options.rounds):
            times.append([])
            if not options.in_memory:
                drop(files)
                times[-1].append(seconds(lambda: read(files)))
                drop(files)
                times[-1].append(seconds(load))
            times[-1] += [seconds(load), seconds(cat)]
        for row in times:
            row.append(seconds(lambda: copy(files)))
        medians = [statistics.median(column) for column in zip(*times)]
        size = sum(path.stat().st_size for path in files) / 1e9
        cells = []
        if not options.in_memory:
            read_s, load_s = medians[:2]
            cells = [f"{read_s:.2f}", f"{load_s:.2f}", f"{load_s / read_s:.2f}"]
        load_s, cat_s, copy_s = medians[-3:]
        cells += [f"{load_s:.2f}", f"{cat_s:.2f}", f"{load_s / cat_s:.2f}", f"{copy_s:.2f}", f"{load_s / copy_s:.2f}"]
        print(f"| {pathlib.Path(model).name} | {size:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
