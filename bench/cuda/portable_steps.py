#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the steps of portable.sh on a machine with a GPU and without a network.

  portable_steps.py correct --out DIR      the versions, the bundled model's answers, the tests, compute-sanitizer
  portable_steps.py time --out DIR         the card's ceilings, the tables of the program and of transformers, the kernels' durations

Each step has its own time limit and log; a failed step does not stop the others. All results are in
DIR/correct.tar.gz or DIR/time.tar.gz, in less than 16 MB. report.py makes tables of DIR/time.tar.gz.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
LARGEST_SUM = 15_000_000  # bytes of all results; their archive has less than 16 MB, even if it cannot compress them
SHORTEST_END = 100_000  # bytes; a shorter log is not cut
DATA = os.path.join(ROOT, ".portable", "data")  # the tests' data, if pack found it
STAGES = {"drawn": "9:0.7,19:0.7,28:0.7", "2.3x": "9:0.35,19:0.35,28:0.35"}


def fail(where, expected, found):
    raise SystemExit(f"error: {where}: expected {expected}, found {found}")


class Steps:
    """Runs commands until the time is up, and records the result of each."""

    def __init__(self, folder, seconds, chosen):
        self.folder, self.end, self.chosen = folder, time.monotonic() + seconds, chosen
        self.results = []
        self.one_at_a_time = threading.Lock()  # steps run side by side

    def left(self):
        return self.end - time.monotonic()

    def run(self, name, limit, command):
        """Runs a step. Returns its exit code, "timeout" or "missing"; None if the step was not chosen or there was no time."""
        if self.chosen and name.split(".")[0] not in self.chosen:
            return None
        limit = min(limit, self.left())
        if limit < 5:
            self.note({"step": name, "left_out": True}, "left out: no time")
            return None
        began = time.monotonic()
        with open(os.path.join(self.folder, name + ".log"), "w", encoding="utf-8", errors="replace") as log:
            try:
                code = finished(command, log, limit)
            except OSError as problem:
                log.write(f"{problem}\n")
                code = "missing"
        took = time.monotonic() - began
        last = "" if code == 0 else self.last_line(name)
        self.note({"step": name, "code": code, "seconds": round(took, 1)}, f"code {code}, {took:.1f} s {last}")
        return code

    def last_line(self, name):
        with open(os.path.join(self.folder, name + ".log"), encoding="utf-8", errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1][:300] if lines else ""

    def note(self, result, said):
        with self.one_at_a_time:
            self.results.append(result)
            print(f"{result['step']}: {said}", flush=True)
            with open(os.path.join(self.folder, "steps.json"), "w", encoding="utf-8") as file:
                json.dump(self.results, file, indent=1)


def finished(command, log, limit):
    """Runs a command with its output in a log. Returns its exit code, or "timeout". After the limit, kills it and all that it has started."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def missing_libraries(program):
    """Returns the names of the libraries that the loader does not find for a program."""
    found = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [line.split()[0] for line in found.splitlines() if line.endswith("=> not found")]


def libraries(pattern):
    """Returns the paths of the libraries with such names, where the loader, CUDA toolkits, Debian packages and PyPI packages have libraries."""
    places = [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    places += ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu"]
    places += [os.path.join(path, "nvidia", "*", "lib") for path in sys.path]
    return [path for place in places for path in sorted(glob.glob(os.path.join(place, pattern))) if os.path.exists(path)]


def find_library(name):
    """Returns the folder of the library with exactly this name."""
    return next((os.path.dirname(path) for path in libraries(name)), None)


def check_libraries(programs):
    """Fails if the loader does not find libraries of the programs: it takes only CUDA's libraries of the major version that `pack` had."""
    missing = sorted({name for program in programs for name in missing_libraries(program)})
    if missing:
        others = {os.path.basename(path) for name in missing for path in libraries(name.split(".so")[0] + ".so.*")}
        others = sorted(name for name in others if name.split(".so.")[1].isdigit())
        fail(programs[0], f"{', '.join(missing)} (CUDA's major version must be that of `pack`)", ", ".join(others) or "none")


def paths_of(flags):
    """Returns LD_LIBRARY_PATH for the packed programs."""
    folders = [os.path.join(ROOT, ".portable", "lib")]
    folders += [flags.lib] if flags.lib else []
    folders += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
    os.environ["LD_LIBRARY_PATH"] = ":".join(folders)
    for name in missing_libraries(flags.program) + missing_libraries(flags.tests):
        folder = find_library(name)
        if folder and folder not in folders:
            folders.append(folder)
    return ":".join(folders)


def shell(command):
    return ["sh", "-c", command]


def versions(flags):
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]  # the one that CUDA uses
    return shell(f"""nvidia-smi -i {gpu} --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit,compute_cap --format=csv,noheader
head -n 2 /etc/os-release; uname -r; nproc; free -g | head -n 2; cat .portable/commit; nvcc --version | tail -n 2; ncu --version | tail -n 1
python3 -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'
echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"; ldd {flags.program} | grep -E 'cu|not found'; true""")


def smoke(flags):
    """Compares the bundled model's answers, dense and pruned, with those of the cpu backend. With `--exact` the answers must be equal. Without
    it the backends round activations, so they may choose different tokens when two logits are nearly equal."""
    flags_of_run = [[], ["--exact"], ["--stages", "2:0.5"], ["--stages", "2:0.5", "--exact"]]
    different = 0
    for prompt in sorted(glob.glob(os.path.join(ROOT, "examples", "pocket", "prompts", "*.txt"))):
        for more in flags_of_run:
            answers = []
            for backend in ("cuda", "cpu"):
                command = [flags.program, "run", "-m", "examples/pocket/model", "-f", prompt, "-n", "16", "--json", "--backend", backend, *more]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    print(f"{' '.join(command)}: code {done.returncode}: {done.stderr.strip()}")
                    different += 1
                    break
                answers.append(json.loads(done.stdout)["text"])
            if len(answers) == 2:
                different += answers[0] != answers[1] and "--exact" in more
                print("equal" if answers[0] == answers[1] else f"different: {answers}", os.path.basename(prompt), *more, flush=True)
    return 1 if different else 0


def test_files():
    """The test files in lazyprune.tests.gpu. The three files that are left out test the emulated device itself."""
    tests = os.path.join(ROOT, "tests")
    found = [os.path.relpath(path, tests) for pattern in ("backend/cuda.test.cpp", "backend/cuda/*.test.cpp", "golden/cuda_*.test.cpp")
             for path in sorted(glob.glob(os.path.join(tests, pattern)))]
    return [name for name in found if name not in ("backend/cuda/device.test.cpp", "backend/cuda/lists.test.cpp", "golden/cuda_steps.test.cpp")]


def one_test(flags, name):
    return [flags.tests, f"--source-file=*/tests/{name}"]


def label(name):
    return name.replace("/", "_").removesuffix(".test.cpp")


def correct(flags, steps):
    steps.run("versions", 30, versions(flags))
    steps.run("smoke", 60, [sys.executable, "-B", __file__, "smoke", "--program", flags.program])
    with concurrent.futures.ThreadPoolExecutor(6) as side_by_side:  # one process per file, because some CUDA errors stay until the process ends
        for name in test_files():
            side_by_side.submit(steps.run, f"tests.{label(name)}", 90, one_test(flags, name))
    # Tests provoke API errors on purpose. initcheck also reports the padding between rows as uninitialised: check its findings by hand.
    sanitizer = ["compute-sanitizer", "--report-api-errors", "no", "--error-exitcode", "9"]
    with concurrent.futures.ThreadPoolExecutor(4) as side_by_side:
        for tool in ("memcheck", "racecheck", "synccheck", "initcheck"):
            for name in ("attention", "wgmma", "elementwise", "row_products"):
                command = sanitizer + ["--tool", tool, *one_test(flags, f"backend/cuda/{name}.test.cpp")]
                side_by_side.submit(steps.run, f"sanitizer.{tool}_{name}", 60, command)


def tables(flags, steps, shape, schedule, limit):
    """Runs `bench` for a shape, dense and with a schedule, in one process. If the memory is too small, leaves out the longest prompt and tries again."""
    prompts = flags.prompts
    while prompts:
        out = os.path.join(steps.folder, f"{shape}_{schedule}.json")
        command = [flags.program, "bench", "--backend", "cuda", "--random-weights", shape, "--dtype", "bf16", "-P", ",".join(map(str, prompts)),
                   "-n", str(flags.predict), "-r", str(flags.repetitions), "--after-each", "--policy", "lazyllm", "--stages",
                   flags.stages or STAGES[schedule], "-o", "json", *([] if flags.no_peak else ["--peak"])]
        name = f"tables.{shape}_{schedule}" + ("" if prompts == flags.prompts else f"_{prompts[-1]}")
        code = steps.run(name, limit, shell(f'"$@" >"{out}"'.replace('"$@"', " ".join(f"'{word}'" for word in command))))
        if code != 3 or "emory" not in steps.last_line(name):
            return
        prompts = prompts[:-1]


def kernels(flags, steps, name, select, more, decoded=0):
    """Profiles with ncu a dense prefill of the first shape with a prompt of the paper's length, and `decoded` steps after it."""
    command = ["ncu", "--target-processes", "all", *select, *more, flags.program, "bench", "--backend", "cuda", "--random-weights", flags.shapes[0],
               "--dtype", "bf16", "-P", "3376", "-n", str(decoded), "-r", "1", "--no-warmup", "--policy", "dense"]
    steps.run(f"kernels.{name}", 75, command)


def timed(flags, steps):
    peers = [sys.executable, "-B", os.path.join(ROOT, "bench", "cuda", "peers.py")]

    def peer(step, name, limit, *more):
        steps.run(f"peers.{name}", limit, [*peers, step, "--out", os.path.join(steps.folder, f"{name}.json"), "--seconds", str(limit - 10), *more])

    first, *others = flags.shapes
    lengths = ",".join(map(str, flags.prompts))
    steps.run("versions", 30, versions(flags))
    tables(flags, steps, first, "2.3x", 90)
    peer("ceilings", "ceilings", 45)
    peer("transformers", f"transformers_{first}", 75, "--shape", first, "-P", lengths)
    tables(flags, steps, first, "drawn", 80)
    durations = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum"
    # By roofline.py, a prefill of Llama-2-7B's shape has 701 kernels: 22 in each layer but the last, for two blocks of rows. A step has 355. So the
    # first profile has all kernels of layer 15, and the second those of the step after the first.
    kernels(flags, steps, "layer", ["--launch-skip", "330", "--launch-count", "60"], ["--metrics", durations, "--csv", "--clock-control", "none"])
    kernels(flags, steps, "decode", ["--launch-skip", "750", "--launch-count", "900"],
            ["--metrics", "gpu__time_duration.sum", "--csv", "--clock-control", "none"], decoded=4)
    for shape in others:
        tables(flags, steps, shape, "2.3x", 90)
    peer("sdpa", "sdpa", 30)
    report = os.path.join(steps.folder, "attention")
    kernels(flags, steps, "attention", ["--kernel-name", "regex:attend_(tensor|warpgroups)", "--launch-skip", "21", "--launch-count", "1"],
            ["--set", "full", "--import-source", "no", "-o", report, "--clock-control", "none"])
    if os.path.exists(report + ".ncu-rep"):
        steps.run("kernels.attention_text", 20, ["ncu", "--import", report + ".ncu-rep", "--page", "details"])
    for shape in others:
        peer("transformers", f"transformers_{shape}", 75, "--shape", shape, "-P", lengths)
        tables(flags, steps, shape, "drawn", 90)


def shorten(folder):
    """Makes the results fit into LARGEST_SUM bytes. First it keeps only the ends of logs. Then it leaves out ncu's files, which report.py and ncu read
    as a whole, and last the tables. Each time it begins with the largest."""
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    of_ncu = lambda name: name.startswith("kernels.") or name.endswith(".ncu-rep")  # noqa: E731
    for name in sorted(sizes, key=lambda name: (name.endswith(".json"), of_ncu(name), -sizes[name])):
        path, size, excess = os.path.join(folder, name), sizes[name], sum(sizes.values()) - LARGEST_SUM
        if excess <= 0:
            return
        if of_ncu(name) or name.endswith(".json"):
            os.remove(path)
            sizes[name] = 0
            print(f"{name}: left out, because the results are too large")
        elif size > SHORTEST_END:
            sizes[name] = max(SHORTEST_END, size - excess)
            said = f"the first {size - sizes[name]:,} bytes are left out, because the results are too large"
            with open(path, "rb") as file:
                file.seek(size - sizes[name])
                end = file.read()
            with open(path, "wb") as file:
                file.write(f"{said}\n".encode() + end)
            print(f"{name}: {said}")


def archive(folder):
    shorten(folder)
    with tarfile.open(folder + ".tar.gz", "w:gz") as file:
        file.add(folder, os.path.basename(folder))
    shutil.rmtree(folder)
    print(f"written: {folder}.tar.gz, {os.path.getsize(folder + '.tar.gz') // 1024} KiB")


def main():
    parser = argparse.ArgumentParser(prog="portable.sh", description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["correct", "time", "smoke"])
    parser.add_argument("--out", help="the folder of the results")
    parser.add_argument("--lib", help="the folder of libcublasLt; without it the usual places are searched")
    parser.add_argument("--seconds", type=float, help="total time limit (default: 170 for correct, 470 for time)")
    parser.add_argument("--steps", help="run only these steps: the part of the printed names before the point, separated by commas")
    parser.add_argument("--program", default=os.path.join(ROOT, ".portable", "lazyprune"))
    parser.add_argument("--tests", default=os.path.join(ROOT, ".portable", "lazyprune.tests.gpu"))
    parser.add_argument("--shapes", default="llama-2-7b,llama-3-8b")
    parser.add_argument("--prompts", default="1024,3376,8192,16384")
    parser.add_argument("--stages", help="replaces the stages of both schedules, for shapes without 32 layers")
    parser.add_argument("--predict", type=int, default=32, help="tokens to generate after each prompt")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--no-peak", action="store_true", help="no shares of the peak; the program knows the peaks of compute capability 8.0 and 9.0 only")
    flags = parser.parse_args()
    flags.shapes = flags.shapes.split(",")
    flags.prompts = sorted(int(number) for number in flags.prompts.split(","))
    os.chdir(ROOT)
    if not os.access(flags.program, os.X_OK):
        fail(flags.program, "a program (sh bench/cuda/portable.sh pack makes it)", "none")
    if flags.task == "smoke":
        return smoke(flags)
    if not flags.out:
        fail("--out", "a folder", "none")
    folder = os.path.join(os.path.abspath(flags.out), flags.task)
    os.environ["LD_LIBRARY_PATH"] = paths_of(flags)
    check_libraries([flags.program, flags.tests] if flags.task == "correct" else [flags.program])
    os.makedirs(folder, exist_ok=True)
    os.environ["PATH"] += os.pathsep + os.path.join(os.environ.get("CUDA_PATH", "/usr/local/cuda"), "bin")  # ncu and compute-sanitizer
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of nvidia-smi
    if os.path.isdir(DATA):
        os.environ.setdefault("LAZYPRUNE_TEST_DATA", DATA)
    seconds = flags.seconds or {"correct": 170, "time": 470}[flags.task]
    steps = Steps(folder, seconds - 5, set(flags.steps.split(",")) if flags.steps else None)
    (correct if flags.task == "correct" else timed)(flags, steps)
    archive(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
