#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests bench/cuda without a GPU: cuda.py PROGRAM. PROGRAM is lazyprune with the cuda backend on the emulated device."""
import contextlib
import csv
import glob
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
HERE = os.path.join(ROOT, "bench", "cuda")
sys.path.insert(0, HERE)
import beside  # noqa: E402  found through sys.path
import portable_steps  # noqa: E402
import report  # noqa: E402
import roofline  # noqa: E402
from roofline import A100, GPUS, H100, SCHEDULES, SHAPES, Kernel  # noqa: E402

PROGRAM = sys.argv[1]
LLAMA = SHAPES["llama-2-7b"]
PAPER = 3376
# run.sh's variables for a table that takes a second
POCKET = dict(PROGRAM=PROGRAM, SHAPES="pocket", PROMPTS="16", SCHEDULES="drawn", STAGES="1:0.5", PREDICT="1", REPETITIONS="1")


def written(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


class Roofline(unittest.TestCase):
    def test_what_bounds_a_kernel(self):
        self.assertEqual([round(gpu.ridge()) for gpu in GPUS], [153, 295, 206])
        self.assertAlmostEqual(Kernel("", "product", 0.75 * 312e12, 1e9).seconds(A100), 1)
        self.assertAlmostEqual(Kernel("", "product", 1, 0.74 * 3352e9).seconds(H100), 1)  # bound by memory
        self.assertAlmostEqual(Kernel("", "rows", 0, 0.75 * 2039e9).seconds(A100), 1)
        self.assertAlmostEqual(Kernel("", "link", 0, 12.5e9).seconds(A100), 1)
        self.assertEqual(Kernel("", "small", 0, 1, launches=2).seconds(A100), 2 * roofline.SHORTEST)
        self.assertEqual(Kernel("", "product", 154, 1).bound(A100), "tensor cores")
        self.assertEqual(Kernel("", "product", 154, 1).bound(H100), "memory")

    def test_operations(self):
        weights = 4 * 4096**2 + 3 * 4096 * 11008
        layers = 31 * (2 * weights * PAPER + 4 * 4096 * PAPER * (PAPER + 1) // 2)
        last = 2 * 2 * 4096**2 * PAPER + 2 * (weights - 2 * 4096**2) + 4 * 4096 * PAPER
        self.assertEqual(roofline.operations(LLAMA, [PAPER] * 32), layers + last + 2 * 4096 * 32000)

    def test_the_kernels_do_what_the_cost_model_counts(self):
        for shape in SHAPES.values():
            for stages in SCHEDULES.values():
                done = sum(k.operations for k in roofline.prefill(shape, PAPER, stages) if k.name.startswith(("product", "attention")))
                self.assertEqual(done, roofline.operations(shape, roofline.rows_by_layer(shape, PAPER, stages)))

    def test_schedules(self):
        rows = roofline.rows_by_layer(LLAMA, PAPER, SCHEDULES["drawn"])
        self.assertEqual(rows, [3376] * 9 + [2364] * 10 + [1655] * 9 + [1159] * 4)
        dense = roofline.operations(LLAMA, [PAPER] * 32)
        self.assertAlmostEqual(dense / roofline.operations(LLAMA, rows), 1.47, 2)
        faster = roofline.rows_by_layer(LLAMA, PAPER, SCHEDULES["2.3x"])
        self.assertAlmostEqual(dense / roofline.operations(LLAMA, faster), 2.30, 2)

    def test_a_decoded_token_reads_the_weights_and_the_cache(self):
        moved = sum(k.bytes for k in roofline.decode(LLAMA, PAPER) if k.name.startswith(("product", "attention")))
        weights = 2 * (32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000)
        cache = 32 * 2 * 2 * 4096 * (PAPER + 1)
        self.assertGreater(moved, weights + cache)
        self.assertLess(moved, 1.01 * (weights + cache))

    def test_the_page_has_the_tables(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            page = file.read()
        made = subprocess.run([sys.executable, "-B", os.path.join(HERE, "roofline.py")], check=True, capture_output=True, text=True).stdout
        self.assertIn(made, page)


class Report(unittest.TestCase):
    def test_ratios(self):
        with tempfile.TemporaryDirectory() as folder:
            common = '"isa": "sm_80", "seconds_to_load": 4.25, "peak_bytes": 1, '
            dense = '{%s"policy": "dense", "test": "pp3376", "tokens_per_s": 10.0, "seconds": 0.5, "share_of_peak": 0.3, "overhead_share": 0.0}' % common
            pruned = ('{%s"policy": "--stages", "test": "pp3376", "tokens_per_s": 20.0, "seconds": 0.25, "speedup": 2.0, "predicted_speedup": 2.5, "predicted_with_memory": 1.6, '
                      '"overhead_share": 0.01}' % common)
            written(os.path.join(folder, "llama-2-7b_fast.json"), f"[{dense}, {pruned}]")
            written(os.path.join(folder, "llama-2-7b_drawn_32768.json"), '{"error": "no room"}')
            runs = report.results_in(folder, A100)
            self.assertEqual([run[0] for run in runs], [("llama-2-7b", 32768, "drawn"), ("llama-2-7b", 3376, "fast")])
            first, second = runs[1][2]
            self.assertAlmostEqual(first["measured_over_expected"], 0.5 / roofline.first_token(A100, LLAMA, PAPER, {}).total())
            self.assertIsNone(second["measured_over_expected"])  # roofline.py does not know that schedule
            self.assertAlmostEqual(second["measured_over_predicted"], 0.8)
            text = "\n".join(report.report("A100", [], runs, folder, "run.sh"))
            self.assertIn("packing them on the device took 4.25 s to 4.25 s.", text)
            self.assertIn("| 32,768 | drawn | no room |", text)
            self.assertIn("| 3,376 | fast | 500 ms | 30.0 % |", text)
            self.assertAlmostEqual(second["measured_over_with_memory"], 1.25)
            self.assertIn("| 250 ms |  | 2.00x | 2.50x | 0.80 | 1.60x | 1.25 | 1.0 % |", text)


    def test_only_the_same_card_has_estimates(self):
        for gpu in roofline.GPUS:
            self.assertIs(report.gpu_named(gpu.full_name), gpu)
        for name in ("NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA A100-SXM4-40GB"):
            self.assertIsNone(report.gpu_named(name))


class Run(unittest.TestCase):
    """run.sh with a fake nvidia-smi."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(self.path("bin"))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def nvidia_smi(self, body):
        written(self.path("bin/nvidia-smi"), "#!/bin/sh\n" + body, 0o755)

    def a_gpu(self):
        self.nvidia_smi('case "$*" in *=name*) echo NVIDIA A100-SXM4-80GB ;; *=compute_cap*) echo 8.0 ;; *) echo 580, 80 GiB ;; esac\n')

    def run_sh(self, **variables):
        environment = dict(os.environ, PATH=self.path("bin") + os.pathsep + os.environ["PATH"], BUILD=self.path("build"), OUT=self.path("out"))
        environment.update(variables)
        return subprocess.run(["sh", os.path.join(HERE, "run.sh")], env=environment, capture_output=True, text=True, check=False)

    def page(self):
        with open(self.path("out/nvidia-a100-sxm4-80gb.md"), encoding="utf-8") as file:
            return file.read()

    def complaint(self, **variables):
        result = self.run_sh(**variables)
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stderr.count("\n"), 1, result)
        return result.stderr

    def test_without_a_gpu(self):
        self.nvidia_smi("exit 9\n")
        self.assertEqual(self.complaint(), "error: nvidia-smi: expected a GPU, found none\n")
        self.nvidia_smi('case "$*" in *=name*) echo Tesla V100 ;; *) echo 7.0 ;; esac\n')
        self.assertEqual(self.complaint(), "error: Tesla V100: expected compute capability 8.0 or more, found 7.0\n")

    def test_what_is_not_there(self):
        self.a_gpu()
        self.assertEqual(self.complaint(STEPS="table"), "error: STEPS: expected sanitizer, tests or tables, found table\n")
        self.assertEqual(self.complaint(STEPS="tables", PROGRAM="/nowhere"), "error: /nowhere: expected a program, found none\n")
        self.assertEqual(self.complaint(PROGRAM=PROGRAM, TEST_PROGRAM="/nowhere"), "error: /nowhere: expected a program, found none\n")

    def test_it_builds_with_packages_of_portable_sh(self):
        written(self.path("bin/nvcc"), "#!/bin/sh\n", 0o755)
        for name in ("apt-get", "dpkg"):
            written(self.path("bin/" + name), f"#!/bin/sh\ntouch {self.path('asked')}\n", 0o755)
        built = f"""#!/bin/sh
echo "$*" >>{self.folder.name}/cmake.log
case $1 in
  --build)
    mkdir -p "$2/examples" "$2/tests"
    printf '#!/bin/sh\necho "lazyprune: memory: too little" >&2; exit 3\n' >"$2/examples/lazyprune"
    printf '#!/bin/sh\necho "[doctest] test cases:  5 |  5 passed"\n' >"$2/tests/lazyprune.tests.gpu"
    chmod +x "$2/examples/lazyprune" "$2/tests/lazyprune.tests.gpu" ;;
  *) echo "$CMAKE_PREFIX_PATH $PKG_CONFIG_PATH $CPATH" >{self.folder.name}/found ;;
esac
"""
        written(self.path("bin/cmake"), built, 0o755)
        packages = self.path("packages")
        for folder in ("lib/x86_64-linux-gnu/pkgconfig", "share/pkgconfig"):
            os.makedirs(os.path.join(packages, folder))
        variables = dict(POCKET, STEPS="tests tables", INSTALL="no", PACKAGES=packages, PROGRAM="")
        for capability, architecture in (("8.0", "80-real"), ("8.6", "86-real"), ("9.0", "90a-real")):
            self.nvidia_smi(f'case "$*" in *=name*) echo GPU {capability} ;; *=compute_cap*) echo {capability} ;; *) echo 580, 80 GiB ;; esac\n')
            build = self.path("build" + capability)
            result = self.run_sh(**variables, BUILD=build)
            self.assertEqual(result.returncode, 0, result)
            with open(self.path("cmake.log"), encoding="utf-8") as file:
                configured, made = file.read().splitlines()[-2:]
            self.assertIn(f"-S . -B {build} -DLAZYPRUNE_CUDA=ON -DCMAKE_CUDA_COMPILER={self.path('bin/nvcc')} -DCMAKE_CUDA_ARCHITECTURES={architecture} ", configured)
            self.assertTrue(made.startswith(f"--build {build} ") and made.endswith(" --target lazyprune.program lazyprune.tests.gpu"), made)
            self.assertTrue(os.path.exists(self.path(f"out/gpu-{capability.replace('.', '-')}.md")))
        with open(self.path("found"), encoding="utf-8") as file:
            prefix, configs, headers = file.read().split()
        self.assertEqual((prefix, headers), (packages, packages + "/include"))
        self.assertEqual(sorted(configs.strip(":").split(":")), [packages + "/lib/x86_64-linux-gnu/pkgconfig", packages + "/share/pkgconfig"])
        self.assertFalse(os.path.exists(self.path("asked")))

        # Only the programs of the chosen steps are built, and a failed build ends the script.
        self.run_sh(**dict(variables, STEPS="tables"), BUILD=self.path("tables"))
        with open(self.path("cmake.log"), encoding="utf-8") as file:
            self.assertTrue(file.read().endswith(" --target lazyprune.program\n"))
        written(self.path("bin/cmake"), "#!/bin/sh\nexit 1\n", 0o755)
        self.assertEqual(self.complaint(**variables), f"error: {self.path('build')} could not be configured\n")

    def test_a_run_that_failed_is_not_counted_in_the_next(self):
        self.a_gpu()
        tests, ready = self.path("tests"), self.path("ready")
        written(tests, f"#!/bin/sh\necho '[doctest] test cases:  5 |  5 passed'\ncase $1 in */golden/*) [ -e {ready} ] ;; esac\n", 0o755)
        flags = dict(STEPS="tests", TEST_PROGRAM=tests)
        self.assertIn("found what", self.complaint(**flags))
        written(ready, "")
        self.assertEqual(self.run_sh(**flags).returncode, 0)
        with open(glob.glob(self.path("build/cuda/*/tests.passed"))[0], encoding="utf-8") as file:
            lines = len(file.readlines())
        golden = len(glob.glob(os.path.join(ROOT, "tests", "golden", "cuda_*.test.cpp"))) - 1  # cuda_steps runs only on the emulated device
        backend = len(glob.glob(os.path.join(ROOT, "tests", "backend", "cuda", "*.test.cpp"))) + 1 - 2  # and so do device and lists
        self.assertEqual(lines, golden + backend)

    def test_findings_of_the_sanitizer(self):
        self.a_gpu()
        sanitizer = self.path("bin/compute-sanitizer")
        written(sanitizer, '#!/bin/sh\ncase "$*" in *initcheck*attention*) echo "ERROR SUMMARY: 3 errors"; exit 9 ;; esac\n', 0o755)
        flags = dict(POCKET, STEPS="sanitizer tables", TEST_PROGRAM=PROGRAM)
        result = self.run_sh(**flags)
        self.assertEqual(result.returncode, 0, result)
        (said,) = [line for line in result.stdout.splitlines() if "see" in line]
        self.assertIn("compute-sanitizer, initcheck, cuda/attention: see ", said)
        with open(said.split("see ")[1], encoding="utf-8") as file:
            self.assertEqual(file.read(), "ERROR SUMMARY: 3 errors\n")
        note = "- compute-sanitizer without a finding: memcheck racecheck synccheck; initcheck has findings, which must be checked by hand\n"
        self.assertIn(note, self.page())

        # The next run does not run the tools again.
        written(sanitizer, "#!/bin/sh\nexit 9\n", 0o755)
        self.assertEqual(self.run_sh(**flags).returncode, 0)
        self.assertIn(note, self.page())
        os.remove(glob.glob(self.path("build/cuda/*/memcheck.passed"))[0])
        complaint = self.complaint(**flags)
        self.assertIn("compute-sanitizer, memcheck: expected no finding, found what ", complaint)
        self.assertTrue(os.path.exists(complaint.split("found what ")[1].split(" says")[0]))

    def test_tables_after_the_tests(self):
        self.a_gpu()
        tests = self.path("tests")
        written(tests, "#!/bin/sh\necho '[doctest] test cases:  5 |  5 passed'\n", 0o755)
        result = self.run_sh(**POCKET, STEPS="tests tables", TEST_PROGRAM=tests)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["nvidia-a100-sxm4-80gb.csv", "nvidia-a100-sxm4-80gb.md"])
        self.assertIn(" passed\n", self.page())

    def test_tables(self):
        self.a_gpu()
        flags = dict(POCKET, STEPS="tables", PROMPTS="16 24")
        result = self.run_sh(**flags)
        self.assertEqual(result.returncode, 0, result)
        with open(self.path("out/nvidia-a100-sxm4-80gb.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["prompt"], row["schedule"], row["test"]) for row in rows],
                         [(p, s, t) for p in ("16", "24") for t in (f"pp{p}", f"tg1 @ d{p}") for s in ("dense", "drawn")])
        for row in rows:
            self.assertGreater(float(row["share_of_peak"]), 0)
            self.assertEqual(row["measured_over_predicted"] != "", row["schedule"] == "drawn" and row["test"].startswith("pp"))
            self.assertEqual(row["measured_over_with_memory"] != "", row["schedule"] == "drawn")
            self.assertEqual(row["expected_seconds"], "")  # roofline.py does not know that shape
        page = self.page()
        self.assertIn("# Measured on NVIDIA A100-SXM4-80GB\n", page)
        self.assertIn("- tests: not run on it at this commit\n", page)
        self.assertIn("\n| 16 | drawn | ", page)

        # The program now fails. The first run needs no program, because its tables exist. In the second run, new tables do not fit into memory.
        # In the third run, the program fails for another reason.
        broken = self.path("broken")
        written(broken, "#!/bin/sh\necho 'lazyprune: cuda: weights: expected 8 bytes, found cudaErrorMemoryAllocation: out of memory' >&2; exit 3\n", 0o755)
        flags.update(PROGRAM=broken)
        self.assertEqual(self.run_sh(**flags).returncode, 0)
        flags.update(SCHEDULES="drawn 2.3x")
        self.assertEqual(self.run_sh(**flags).returncode, 0)
        page = self.page()
        for prompt in (16, 24):
            self.assertIn(f"| {prompt} | 2.3x | no room |", page)
        written(broken, "#!/bin/sh\necho device: it >&2; echo 'lazyprune: cuda: launch: expected success, found cudaErrorLaunchFailure' >&2; exit 3\n", 0o755)
        flags.update(SHAPES="tinyllama-1.1b")
        self.assertEqual(self.complaint(**flags), "error: lazyprune: cuda: launch: expected success, found cudaErrorLaunchFailure\n")


class Beside(unittest.TestCase):
    """Tests beside.py, which writes the sections of report.py about portable.sh's measurements other than the tables."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, value):
        written(os.path.join(self.folder.name, name), value if isinstance(value, str) else json.dumps(value))

    def profile(self, blocks):
        """Writes a log like ncu's: the last three kernels of a layer, then all kernels of a layer for each block. Kernel i of n rows takes n * i ns."""
        names = {"norm": "norm_rows<unsigned short>", "put": "put_rows", "attention": "attend_tensor<128>",
                 "gate": "gate_rows", "product": "nvjet_tss"}
        kernels = [(names[name.split()[0].rstrip(",")], n, n * i) for n in blocks for i, name in enumerate(beside.LAYER, 1)]
        lines = ["==PROF== Connected", '"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"']
        for i, (name, n, nanoseconds) in enumerate(kernels[len(beside.LAYER) - 3 : len(beside.LAYER)] + kernels):
            lines.append(f'"{i}","{name}","({n}, 1, 1)","dram__bytes_read.sum","Kbyte","1,000"')
            lines.append(f'"{i}","{name}","({n}, 1, 1)","gpu__time_duration.sum","ns","{nanoseconds:,}"')
        self.write("kernels.layer.log", "\n".join(lines) + "\n")

    def test_a_layer_is_found_among_its_neighbours(self):
        self.profile([1328, 2048, 1328, 2048])
        layer = beside.layer_of(beside.profiled(self.folder.name, "layer"), PAPER)
        self.assertEqual([part["name"] for part in layer], beside.LAYER)
        for i, part in enumerate(layer, 1):
            self.assertAlmostEqual(part["seconds"], PAPER * i * 1e-9)
            self.assertEqual(part["bytes"], 2e6)
        self.assertIsNone(beside.layer_of(beside.profiled(self.folder.name, "layer"), 5000))
        page = "\n".join(beside.kernels(self.folder.name, H100, "llama-2-7b"))
        self.assertIn("| attention | 20.3 us | 225 us | 0.09 |", page)

    def test_a_decode_step(self):
        names = ["gate_rows", "void lazyprune::v0::device::embed_rows<float>(int)", "gemv", "gemv", "attend", "void lazyprune::v0::device::embed_rows<float>(int)", "gemv"]
        lines = ['"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"']
        lines += [f'"{i}","{name}","(1, 1, 1)","gpu__time_duration.sum","us","{i}.0"' for i, name in enumerate(names)]
        self.write("kernels.decode.log", "\n".join(lines) + "\n")
        page = "\n".join(beside.decode(self.folder.name, "pocket"))
        self.assertIn("| gemv | 2 | 2.50 us | 5.00 us |\n| attend | 1 | 4.00 us | 4.00 us |\n| embed_rows<float> | 1 | 1.00 us | 1.00 us |\n| all | 4 |  | 10.0 us |", page)

    def test_the_names_are_those_of_the_paper(self):
        self.assertEqual([kernel.name for kernel in roofline.layer(LLAMA, PAPER, PAPER)], beside.LAYER)

    def test_transformers(self):
        rows = [dict(test=test, schedule=schedule, seconds=seconds) for test, schedule, seconds in
                (("pp64", "dense", 0.25), ("pp64", "drawn", 0.1), ("tg4 @ d64", "dense", 0.02), ("tg4 @ d64", "drawn", 0.01))]
        self.write("transformers_pocket.json", {"transformers": [{"what": "model"}, {"what": "prefill", "prompt": 64, "seconds": 0.5},
                                                                 {"what": "decode", "prompt": 64, "seconds": 0.01}, {"what": "decode", "prompt": 9, "error": "no"}]})
        page = "\n".join(beside.transformers(self.folder.name, "pocket", [(("pocket", 64, "drawn"), None, rows)]))
        self.assertIn("| 64 | 500 ms | 250 ms | 2.00x | 5.00x |  | 10.0 ms | 5.00 ms | 2.00x |", page)

    def test_ceilings_and_attention(self):
        self.write("ceilings.json", {"ceilings": [
            {"what": "copy", "seconds": 1, "gb_per_s": 2000.0}, {"what": "square product", "rows": 8192, "seconds": 1, "tflop_per_s": 700.0},
            {"what": "product", "shape": "pocket", "product": "q", "rows": 1, "output": "bf16", "seconds": 1, "gb_per_s": 1234.0, "tflop_per_s": 1.0},
            {"what": "product", "shape": "pocket", "product": "q", "rows": 64, "output": "bf16", "seconds": 1, "gb_per_s": 1.0, "tflop_per_s": 600.0}]})
        self.write("sdpa.json", {"sdpa": [{"what": "sdpa", "shape": "pocket", "prompt": 64, "backend": "MATH", "seconds": 1, "tflop_per_s": 5.0},
                                          {"what": "sdpa", "shape": "pocket", "prompt": 64, "backend": "FLASH_ATTENTION", "error": "no kernel"}]})
        page = "\n".join([*beside.ceilings(self.folder.name, H100), *beside.attention(self.folder.name)])
        self.assertIn("2,000 GB/s, read and written, 60 % of the data sheet", page)
        self.assertIn("| pocket | q | 1,234 | 600 |", page)
        self.assertIn("| pocket | MATH | 5 |", page)
        self.assertEqual(list(beside.transformers(self.folder.name, "pocket", [])), [])


class Portable(unittest.TestCase):
    """portable.sh on a machine without a GPU, ncu, compute-sanitizer and torch."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def portable(self, *arguments):
        return subprocess.run(["sh", os.path.join(HERE, "portable.sh"), *arguments], capture_output=True, text=True, check=False)

    def archived(self, task):
        with tarfile.open(self.path(f"{task}.tar.gz")) as archive:
            archive.extractall(self.path("read"))
        with open(self.path(f"read/{task}/steps.json"), encoding="utf-8") as file:
            return {step["step"]: step for step in json.load(file)}

    def test_arguments(self):
        for arguments, said in ((["unpack"], "portable.sh: expected pack, correct or time, found unpack"),
                                (["pack", "--to", "x"], "portable.sh pack: expected --build DIR, found --to"),
                                (["time", "--program", "/nowhere", "--out", "x"], "/nowhere: expected a program (sh bench/cuda/portable.sh pack makes it), found none"),
                                (["correct", "--program", PROGRAM], "--out: expected a folder, found none")):
            result = self.portable(*arguments)
            self.assertEqual((result.returncode, result.stderr), (1, f"error: {said}\n"))

    def test_pack(self):
        for name in ("bench/cuda/portable.sh", "cmake/packages.sh"):  # pack writes into the repository that it is in
            os.makedirs(os.path.dirname(self.path(name)))
            shutil.copy(os.path.join(ROOT, name), self.path(name))
        packed = self.path(".portable")
        own, toolkit = self.path("libpcre2-8.so.0"), self.path("libcudart.so.13")
        listed = ["/usr/include/stdio.h", "/usr/include", "/usr/bin/env",
                  *glob.glob("/usr/lib/*/pkgconfig/*.pc")[:3], *glob.glob("/usr/share/pkgconfig/*.pc")[:3]]
        fakes = {
            "nvcc": "",
            "cmake": 'case $1 in --build) mkdir -p "$2/examples" "$2/tests"; echo program >"$2/examples/lazyprune"; echo tests >"$2/tests/lazyprune.tests.gpu" ;; esac',
            "strip": 'cp "$3" "$2"',
            "ldd": f"echo 'linux-vdso.so.1 (0x1)'; echo 'libm.so.6 => /lib/libm.so.6 (0x1)'; echo 'libcudart.so.13 => {toolkit} (0x1)'\n"
                   f"echo 'libcublasLt.so.13 => not found'; echo 'libpcre2-8.so.0 => {own} (0x1)'",
            "dpkg": "\n".join(f"echo {file}" for file in listed)}
        for name, body in fakes.items():
            os.makedirs(self.path("bin"), exist_ok=True)
            written(self.path("bin/" + name), f"#!/bin/sh\n{body}\n", 0o755)
        for file in (own, toolkit):
            written(file, "library")
        for folder, file in (("traces", "a.json"), ("models/a", "weights"), ("models/a", "ref64_logits"), ("models/b", "weights")):
            os.makedirs(self.path(os.path.join("data", folder)), exist_ok=True)
            written(self.path(os.path.join("data", folder, file)), '{"model": "models/a"}')

        def pack():
            environment = dict(os.environ, PATH=self.path("bin") + os.pathsep + os.environ["PATH"], LAZYPRUNE_TEST_DATA=self.path("data"))
            return subprocess.run(["sh", self.path("bench/cuda/portable.sh"), "pack", "--build", self.path("build")],
                                  env=environment, capture_output=True, text=True, check=False)

        result = pack()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"packed: \.portable, \d+ KiB\n")
        made = sorted(os.path.relpath(os.path.join(folder, file), packed) for folder, _, files in os.walk(packed) for file in files)
        self.assertEqual(made, sorted(["commit", "data/models/a/weights", "data/traces/a.json", "lazyprune", "lazyprune.tests.gpu", "lib/libpcre2-8.so.0",
                                       *("packages/" + file[len("/usr/"):] for file in listed if file.endswith((".h", ".pc")))]))
        for name in (name for name in made if name.endswith(".pc")):
            with open(os.path.join(packed, name), encoding="utf-8") as file:
                for prefix in (line[len("prefix="):].strip() for line in file if line.startswith("prefix=")):
                    folder = os.path.normpath(prefix.replace("${pcfiledir}", os.path.dirname(os.path.join(packed, name))))
                    self.assertEqual(folder, os.path.join(packed, "packages"), name)

        with open(own, "wb") as file:
            file.write(os.urandom(41 << 20))
        result = pack()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^error: \.portable: expected 40 MiB at most, found \d+ KiB\n$")

    def test_correct(self):
        tests = self.path("tests")
        written(tests, '#!/bin/sh\ncase $1 in */memory.test.cpp) echo it failed; exit 1 ;; esac\necho "$1"\n', 0o755)
        program = self.path("program")  # without --exact, its answers on the GPU and on the CPU differ
        written(program, '#!/bin/sh\ncase "$*" in *--exact*) ;; *"--backend cuda"*) echo \'{"text": "a"}\'; exit ;; esac\necho \'{"text": "b"}\'\n', 0o755)
        result = self.portable("correct", "--out", self.folder.name, "--program", program, "--tests", tests, "--steps", "tests,sanitizer,smoke")
        self.assertEqual(result.returncode, 0, result)
        steps = self.archived("correct")
        self.assertEqual(steps["smoke"]["code"], 0)
        with open(self.path("read/correct/smoke.log"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual([line.startswith("equal ") for line in lines], ["--exact" in line for line in lines])
        written(program, '#!/bin/sh\ncase "$*" in *"--backend cuda"*--exact*) echo \'{"text": "a"}\'; exit ;; esac\necho \'{"text": "b"}\'\n', 0o755)
        self.portable("correct", "--out", self.folder.name, "--program", program, "--tests", tests, "--steps", "smoke")
        self.assertEqual(self.archived("correct")["smoke"]["code"], 1)
        self.assertEqual(steps["tests.backend_cuda_products"]["code"], 0)
        self.assertEqual(steps["tests.backend_cuda_memory"]["code"], 1)
        self.assertIn("tests.backend_cuda_memory: code 1, ", result.stdout)
        self.assertNotIn("tests.backend_cuda_device", steps)  # device.test.cpp tests the emulated device itself
        self.assertEqual(len([step for step in steps if step.startswith("sanitizer.")]), 16)
        with open(self.path("read/correct/tests.backend_cuda_products.log"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "--source-file=*/tests/backend/cuda/products.test.cpp\n")

    def test_time(self):
        os.mkdir(self.path("bin"))
        written(self.path("bin/nvidia-smi"), "#!/bin/sh\necho NVIDIA H100 80GB HBM3, 580, 80 GiB\n", 0o755)
        os.environ["PATH"] = self.path("bin") + os.pathsep + os.environ["PATH"]
        result = self.portable("time", "--out", self.folder.name, "--program", PROGRAM, "--shapes", "pocket", "--prompts", "16,24", "--stages", "1:0.5",
                               "--predict", "1", "--repetitions", "1", "--seconds", "300")
        self.assertEqual(result.returncode, 0, result)
        steps = self.archived("time")
        self.assertEqual([steps[f"tables.pocket_{schedule}"]["code"] for schedule in ("drawn", "2.3x")], [0, 0])
        made = subprocess.run([sys.executable, "-B", os.path.join(HERE, "report.py"), self.path("time.tar.gz"), "--note", "commit 1", "--out", self.path("page")],
                              capture_output=True, text=True, check=False)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        with open(self.path("page.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("# Measured on NVIDIA H100 80GB HBM3\n", page)
        self.assertIn("- commit 1\n", page)
        self.assertIn("\n| 24 | 2.3x | ", page)

    def test_the_profiles_have_a_whole_layer_and_a_whole_step(self):
        os.mkdir(self.path("bin"))
        written(self.path("bin/ncu"), '#!/bin/sh\necho "$@"\n', 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=self.path("bin") + os.pathsep + os.environ["PATH"]):
            self.portable("time", "--out", self.folder.name, "--program", PROGRAM, "--steps", "kernels")
        self.archived("time")

        def profiled(name, launched):
            """The launches that the command of this profile measures."""
            with open(self.path(f"read/time/kernels.{name}.log"), encoding="utf-8") as file:
                words = file.read().split()
            skipped, count = (int(words[words.index(flag) + 1]) for flag in ("--launch-skip", "--launch-count"))
            return launched[skipped : skipped + count]

        def launch(name, rows=1):
            return {"name": {"embed": "embed_rows", **beside.KINDS}.get(name.split()[0].rstrip(","), name), "blocks": rows, "seconds": 0, "bytes": 0}

        def launches(kernels):
            return [launch(kernel.name) for kernel in kernels if kernel.kind != "link" for _ in range(kernel.launches)]

        first, *_ = kernels = roofline.prefill(LLAMA, PAPER, {})
        layer = [launch(name, rows) for rows in (roofline.BLOCK_ROWS, PAPER - roofline.BLOCK_ROWS) for name in beside.LAYER]
        prefill = launches([first]) + (LLAMA.layers - 1) * layer + launches(roofline.layer(LLAMA, PAPER, 1) + roofline.logits(LLAMA))
        step = launches(roofline.decode(LLAMA, PAPER))
        self.assertEqual((len(prefill), len(layer), len(step)), (701, 22, 355))
        self.assertEqual(len(prefill), len(launches(kernels)))
        self.assertIsNotNone(beside.layer_of(profiled("layer", prefill), PAPER))
        self.assertEqual(beside.step_of(profiled("decode", prefill + 4 * step)), step)
        self.assertEqual(len(profiled("attention", [kernel for kernel in (LLAMA.layers - 1) * layer if "attend_" in kernel["name"]])), 1)

    def test_a_step_that_takes_too_long_ends_with_all_that_it_started(self):
        reads, writes = os.pipe()
        self.addCleanup(os.close, reads)
        self.assertEqual(portable_steps.finished(["sh", "-c", "sleep 60 & sleep 60"], writes, 0.2), "timeout")
        os.close(writes)
        self.assertTrue(select.select([reads], [], [], 10)[0])  # no process has the other end any more
        self.assertEqual(portable_steps.finished(["sh", "-c", "exit 3"], subprocess.DEVNULL, 10), 3)

    def test_libraries_are_found_by_their_whole_names(self):
        lib = self.path("nvidia/cublas/lib")
        os.makedirs(lib)
        written(os.path.join(lib, "libcublasLt.so.12"), "")
        written(self.path("ldd"), "#!/bin/sh\necho '\tlibcublasLt.so.12 => not found'; echo '\tlibm.so.6 => /lib/libm.so.6 (0x1)'\n", 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=self.folder.name + os.pathsep + os.environ["PATH"]):
            self.assertEqual(portable_steps.missing_libraries(PROGRAM), ["libcublasLt.so.12"])
        with unittest.mock.patch.object(sys, "path", [self.folder.name]):
            self.assertEqual(portable_steps.find_library("libcublasLt.so.12"), lib)
            self.assertIsNone(portable_steps.find_library("libcublasLt.so.1"))

    def test_the_stage_of_ci_that_packs(self):
        for name in (".ci/run", "cmake/packages.sh"):
            os.makedirs(os.path.dirname(self.path(name)))
            shutil.copy(os.path.join(ROOT, name), self.path(name))
        os.makedirs(self.path("bench/cuda"))
        written(self.path("bench/cuda/portable.sh"), "echo packed; exit 3\n")
        for folder in ("bin", "toolkit/bin"):
            os.makedirs(self.path(folder))
        for tool in ("cat", "dirname", "mkdir", "mktemp", "rm", "sed", "sh", "tee", "timeout"):
            os.symlink(shutil.which(tool), self.path("bin/" + tool))

        def stage(**variables):
            environment = dict(PATH=self.path("bin"), CUDA_PATH="/nowhere", STAGES="nvcc")
            return subprocess.run([self.path(".ci/run"), "--long"], env={**environment, **variables}, capture_output=True, text=True, check=False).stdout

        self.assertIn("skipped: needs nvcc (NVIDIA's CUDA toolkit)\n", stage())
        written(self.path("toolkit/bin/nvcc"), "#!/bin/sh\n", 0o755)
        self.assertIn("\npacked\n", stage(CUDA_PATH=self.path("toolkit")))
        self.assertIn("\npacked\n", stage(PATH=self.path("bin") + os.pathsep + self.path("toolkit/bin")))

    def test_another_major_version_of_cuda(self):
        lib = self.path("lib")
        os.makedirs(lib)
        for name in ("libcublasLt.so.12", "libcublasLt.so.12.4.5", "libcudart.so.12"):
            written(os.path.join(lib, name), "")
        written(self.path("ldd"), "#!/bin/sh\nfor name in libcudart libcublasLt; do echo \"\t$name.so.99 => not found\"; done\n", 0o755)
        tests = self.path("tests")
        written(tests, "#!/bin/sh\n", 0o755)
        with unittest.mock.patch.dict(os.environ, PATH=self.folder.name + os.pathsep + os.environ["PATH"], LD_LIBRARY_PATH=lib):
            for task in ("correct", "time"):
                result = self.portable(task, "--out", self.path("out"), "--program", PROGRAM, "--tests", tests)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertRegex(result.stderr, r"^error: [^\n]*: expected libcublasLt.so.99, libcudart.so.99 \(CUDA's major version must be that of `pack`\), "
                                                r"found [^\n]*libcublasLt.so.12, [^\n]*libcudart.so.12[^\n]*\n$")
        self.assertFalse(os.path.exists(self.path("out")))

    def test_the_archive_is_never_too_large(self):
        """Files of random bytes are not compressed."""
        parts = {"versions.log": b"a GPU\n", "table_drawn.json": b"[]", "tables.log": os.urandom(4_000_000), "peers.log": os.urandom(9_000_000),
                 "kernels.decode.log": os.urandom(2_000_000), "attention.ncu-rep": os.urandom(3_000_000)}

        def archived(**more):
            folder = self.path("time")
            os.mkdir(folder)
            for name, content in {**parts, **more}.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(content)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                portable_steps.archive(folder)
            self.assertFalse(os.path.exists(folder))
            self.assertLess(os.path.getsize(folder + ".tar.gz"), 16_000_000)
            with tarfile.open(folder + ".tar.gz") as made:
                return said.getvalue(), {os.path.basename(entry.name): made.extractfile(entry).read() for entry in made if entry.isfile()}

        said, kept = archived()
        cut = b"the first 3,000,008 bytes are left out, because the results are too large\n"
        self.assertEqual(said.splitlines()[:-1], ["peers.log: " + cut.decode().strip()])
        self.assertEqual(kept, {**parts, "peers.log": cut + parts["peers.log"][3_000_008:]})

        said, kept = archived(**{"attention.ncu-rep": os.urandom(14_000_000)})
        self.assertEqual([line.split()[0] for line in said.splitlines()[:-1]], ["peers.log:", "tables.log:", "attention.ncu-rep:"])
        self.assertIn("attention.ncu-rep: left out, because the results are too large\n", said)
        self.assertTrue(kept["peers.log"].endswith(parts["peers.log"][-100_000:]))
        for name in ("versions.log", "table_drawn.json", "kernels.decode.log"):
            self.assertEqual(kept[name], parts[name])

        said, kept = archived(**{"table_2.3x.json": os.urandom(16_000_000)})
        self.assertEqual(sorted(kept), ["peers.log", "table_drawn.json", "tables.log", "versions.log"])

    def test_no_time(self):
        result = self.portable("time", "--out", self.folder.name, "--program", PROGRAM, "--seconds", "6")
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue(all(step["left_out"] for step in self.archived("time").values()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
