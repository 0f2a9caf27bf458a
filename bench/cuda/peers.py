#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures with PyTorch the peak rates of the GPU, and the rates of other implementations on the shapes that the cuda backend is timed on.

  peers.py ceilings --out FILE.json      a copy, a large product, and the products of a layer
  peers.py sdpa --out FILE.json          causal scaled_dot_product_attention, each of its backends
  peers.py transformers --out FILE.json  prefill and greedy decoding of LlamaForCausalLM with random weights

  [--seconds LIMIT] [--device cuda|cpu] [--shape NAME,...] [-P 1024,3376,...] [--compiled]

Needs torch, and transformers for the last step. Needs no network and no model file: weights are random and drawn on the device. FILE.json is written
after every measurement, so a killed process leaves what it had measured. A failed measurement is an entry with `error`. The limit counts from the
start of the process; measurements that it cuts off are listed in `left_out`. `--device cpu` rehearses every step with a tiny shape in seconds.

Exit status: 0, 2 if an argument is wrong, 77 if a library or the device is missing.
"""
import time

START = time.monotonic()  # before the slow imports, which count towards --seconds

import argparse  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import warnings  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import roofline  # noqa: E402  found through sys.path
from report import written  # noqa: E402

try:
    import torch
except (ImportError, OSError) as problem:
    torch, TORCH_PROBLEM = None, problem

STEPS = ("ceilings", "sdpa", "transformers")
SHAPES = {**roofline.SHAPES, "tiny": roofline.Shape(64, 2, 4, 2, 128, 256)}
PROMPTS = {"ceilings": [1024, 2048, 3376], "sdpa": [1024, 3376, 8192, 16384], "transformers": [1024, 3376, 8192, 16384]}
SMALL_PROMPTS = [16, 48]  # on the CPU

POOL_NUMBERS = {"cuda": 9 << 27, "cpu": 1 << 20}  # bf16 numbers that products and the copy read: 2.4 GB on a GPU
SQUARE = {"cuda": 8192, "cpu": 64}
DECODED = 32  # tokens of a timed decoding
REPETITIONS = 3  # timed runs of a model, after an untimed one


def fail(where, expected, found):
    print(f"error: {where}: expected {expected}, found {found}", file=sys.stderr)
    raise SystemExit(2)


def missing(what):
    print(f"error: {what}", file=sys.stderr)
    raise SystemExit(77)


def first_line(text):
    lines = str(text).strip().splitlines()
    return lines[0][:300] if lines else ""


class Results:
    """The output file. It is written again, with all results so far, after every measurement."""

    def __init__(self, path, step, limit):
        self.path, self.limit = path, limit
        self.entries, self.left_out = [], []
        self.document = {"step": step, "device": {}, step: self.entries, "left_out": self.left_out, "finished": False}

    def write(self):
        self.document["seconds"] = round(time.monotonic() - START, 3)
        written(self.path, json.dumps(self.document, indent=1) + "\n")

    def finish(self):
        self.document["finished"] = True
        self.write()

    def in_time(self, keys):
        if self.limit is None or time.monotonic() - START < self.limit:
            return True
        self.left_out.append(keys)
        self.write()
        return False

    def measure(self, keys, work):
        """Appends `keys` with the fields that `work()` returns, or with its error. Returns the entry; None if the time is up."""
        if not self.in_time(keys):
            return None
        entry = {**keys, **attempted(work)}
        self.add(entry)
        return entry

    def add(self, entry):
        self.entries.append(entry)
        self.write()
        if "same_as" not in entry:
            print(line_of(entry), flush=True)


def line_of(entry):
    """A short line for the terminal."""
    names = ("what", "shape", "product", "rows", "prompt", "backend", "grouped", "output", "mode")
    line = " ".join(str(entry[name]) for name in names if name in entry) + ": "
    if "error" in entry:
        return line + entry["error"][:90]
    units = {"tflop_per_s": "TFLOP/s", "gb_per_s": "GB/s", "tokens_per_s": "tokens/s", "creation_seconds": "s", "compile_seconds": "s to compile"}
    cells = [f"{1e6 * entry['seconds']:.1f} us"] if "seconds" in entry else []
    return line + ", ".join(cells + [f"{entry[field]:.4g} {unit}" for field, unit in units.items() if field in entry])


def attempted(work):
    """Returns the fields of `work()`. After any exception, returns the first line of its message instead, because the next measurement may succeed."""
    try:
        found = work()
    except Exception as problem:
        found = error_of(problem)
    if "error" in found:
        free_memory()
    return found


def error_of(problem):
    return {"error": first_line(problem) or type(problem).__name__, "error_type": type(problem).__name__}


def free_memory():
    gc.collect()
    if torch.cuda.is_available():
        try:
            torch.cuda.empty_cache()
        except RuntimeError:  # an earlier kernel broke the context, and the entry of this kernel already has the error
            pass


# The device


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def answer(question):
    """Returns the result of `question()`; None if the driver or a library does not answer."""
    try:
        return question()
    except Exception:
        return None


def nvidia_smi(properties):
    fields = ["driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit"]
    command = ["nvidia-smi", "-i", f"GPU-{properties.uuid}", "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return dict(zip(("driver", "max_sm_mhz", "max_memory_mhz", "power_limit_w"), (cell.strip() for cell in done.stdout.split(","))))


def load_now():
    """Returns the clock, power and temperature of the GPU at this moment. Call it right after the GPU has worked."""
    return {
        "sm_mhz": answer(torch.cuda.clock_rate),
        "power_w": answer(lambda: torch.cuda.power_draw() / 1000),
        "temperature_c": answer(torch.cuda.temperature),
    }


def describe(device):
    told = {"kind": device, "torch": torch.__version__, "python": sys.version.split()[0]}
    if device == "cpu":
        return {**told, "name": "CPU", "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(0)
    return {
        **told,
        "name": properties.name,
        "cuda": torch.version.cuda,
        "cudnn": answer(torch.backends.cudnn.version),
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        **(answer(lambda: nvidia_smi(properties)) or {}),
        **load_now(),
    }


def l2_bytes(device):
    return torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else 0


def buffer_sets(device, set_bytes, most):
    """Returns how many input sets should take turns, so that a set is no longer in the L2 cache when its turn comes again."""
    return max(1, min(most, max(2, math.ceil(4 * l2_bytes(device) / set_bytes))))


# Timing


def statistics_of(samples, calls):
    return {"seconds": statistics.median(samples), "fastest": min(samples), "slowest": max(samples), "samples": len(samples), "calls_a_sample": calls}


def timed_on_cpu(calls, budget):
    samples = []
    for call in calls:
        call()
    end = time.perf_counter() + budget
    while len(samples) < 5 or (len(samples) < 50 and time.perf_counter() < end):
        start = time.perf_counter()
        for call in calls:
            call()
        samples.append((time.perf_counter() - start) / len(calls))
    return {**statistics_of(samples, len(calls)), "timer": "clock"}


def elapsed(work, times):
    """Returns the seconds of each of `times` runs, measured by CUDA events. The device does not wait between the runs."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(times)]
    for start, stop in events:
        start.record()
        work()
        stop.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1000 for start, stop in events]


def captured(work):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def timed_on_cuda(calls, budget):
    """Returns the seconds per call, from samples that run every call at least once and take 2 ms or more. A sample replays a CUDA graph, which
    hides the launches. If the calls cannot be captured in a graph, a loop runs them, and the time includes the launches."""

    def each():
        for call in calls:
            call()

    def sample():
        for _ in range(repeats):
            each()

    stream = torch.cuda.current_stream()
    elapsed(each, 2)  # loads the kernels
    repeats = max(1, math.ceil(2e-3 / min(elapsed(each, 2))))
    try:
        graph = captured(sample)
        work, timer = graph.replay, "graph"
    except RuntimeError:  # after the failed capture, torch's current stream is still that of the capture
        torch.cuda.set_stream(stream)
        torch.cuda.synchronize()
        graph, work, timer = None, sample, "loop"
    once = min(elapsed(work, 2))
    count = repeats * len(calls)
    samples = [seconds / count for seconds in elapsed(work, max(5, min(50, int(budget / once))))]
    if graph is not None:
        graph.reset()
    return {**statistics_of(samples, count), "timer": timer}


def timed(device, calls, budget=0.06):
    """Returns the seconds per call. `calls` do the same work on different buffers."""
    return timed_on_cuda(calls, budget) if device == "cuda" else timed_on_cpu(calls, budget / 10)


def finite(tensor):
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError("the result has numbers that are not finite")


# Step 1: ceilings


def layer_products(shape):
    """Inputs and outputs of each product of a layer."""
    h, f = shape.hidden, shape.ffn
    return {"q": (h, shape.q), "k": (h, shape.kv), "v": (h, shape.kv), "o": (shape.q, h), "gate+up": (h, 2 * f), "down": (f, h)}


def copy_of(device, pool):
    target = torch.empty_like(pool)
    moved = 2 * pool.numel() * pool.element_size()
    fields = timed(device, [lambda: target.copy_(pool)], 0.1)
    return {"bytes": moved, **fields, "gb_per_s": moved / fields["seconds"] / 1e9}


def product_of(device, pool, rows, inputs, outputs, output_type, budget=0.06):
    """Measures x [rows, inputs] times the transpose of w [outputs, inputs], both bf16, with sums in float."""
    numbers = rows * inputs + inputs * outputs
    stride = (numbers + 127) // 128 * 128  # keeps 256-byte alignment
    calls, results = [], []
    for s in range(buffer_sets(device, 2 * stride, pool.numel() // stride)):
        part = pool[s * stride:]
        x, w = part[:rows * inputs].view(rows, inputs), part[rows * inputs:numbers].view(outputs, inputs).t()
        y = torch.empty(rows, outputs, dtype=output_type, device=device)
        results.append(y)
        if output_type == torch.float32:
            calls.append(lambda x=x, w=w, y=y: torch.mm(x, w, out_dtype=torch.float32, out=y))
        else:
            calls.append(lambda x=x, w=w, y=y: torch.mm(x, w, out=y))
    fields = timed(device, calls, budget)
    finite(results[-1])
    operations = 2 * rows * inputs * outputs
    moved = 2 * numbers + results[0].element_size() * rows * outputs
    fields.update(buffers=len(calls), operations=operations, bytes=moved)
    return {**fields, "tflop_per_s": operations / fields["seconds"] / 1e12, "gb_per_s": moved / fields["seconds"] / 1e9}


def square_of(device, pool):
    size = SQUARE[device]
    fields = product_of(device, pool, size, size, size, torch.bfloat16, 0.3)
    return {**fields, **(load_now() if device == "cuda" else {})}


def products_to_measure(names, rows_list):
    """Yields the keys of every product: first all products with bf16 results, then all with float results. In both groups, the products of one row
    (a decode step) come first, and only these include the product for the logits."""
    for output in ("bf16", "float32"):
        for rows in [1] + rows_list:
            for name in names:
                sizes = layer_products(SHAPES[name])
                if rows == 1:
                    sizes["logits"] = (SHAPES[name].hidden, SHAPES[name].vocabulary)
                for product, (inputs, outputs) in sizes.items():
                    yield {"what": "product", "shape": name, "product": product, "rows": rows, "inputs": inputs, "outputs": outputs, "output": output}


def ceilings(flags, results):
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # sums stay in float, even if cuBLAS splits a product
    device, wanted = flags.device, list(products_to_measure(flags.shape, flags.prompts))
    largest = max(key["rows"] * key["inputs"] + key["inputs"] * key["outputs"] for key in wanted)
    pool = torch.empty(max(POOL_NUMBERS[device], 2 * largest + 256), dtype=torch.bfloat16, device=device).normal_()
    results.measure({"what": "copy"}, lambda: copy_of(device, pool))
    results.measure({"what": "square product", "rows": SQUARE[device], "output": "bf16"}, lambda: square_of(device, pool))
    known = {}
    for keys in wanted:
        sizes = (keys["rows"], keys["inputs"], keys["outputs"], keys["output"])
        if sizes in known:
            entry = known[sizes]
            results.add({**entry, **keys, "same_as": f"{entry['shape']} {entry['product']}"})
            continue
        output_type = torch.bfloat16 if keys["output"] == "bf16" else torch.float32
        entry = results.measure(keys, lambda: product_of(device, pool, *sizes[:3], output_type))
        if entry is not None:
            known[sizes] = entry


# Step 2: sdpa


def attention_inputs(device, shape, tokens, kv_heads):
    """Query, key and value [1, heads, tokens, head_dim]. In memory the heads of a token are adjacent, as projections write them."""
    head_dim = shape.hidden // shape.heads

    def made(heads):
        return torch.empty(1, tokens, heads, head_dim, dtype=torch.bfloat16, device=device).normal_().transpose(1, 2)

    return made(shape.heads), made(kv_heads), made(kv_heads)


def attention_of(device, shape, tokens, backend, grouped):
    from torch.nn.attention import sdpa_kernel

    kv_heads = shape.kv_heads if grouped == "enable_gqa" else shape.heads
    set_bytes = 4 * tokens * (shape.q + kv_heads * shape.hidden // shape.heads)
    sets = [attention_inputs(device, shape, tokens, kv_heads) for _ in range(buffer_sets(device, set_bytes, 16))]
    attend, options = torch.nn.functional.scaled_dot_product_attention, {"is_causal": True, "enable_gqa": grouped == "enable_gqa"}
    with warnings.catch_warnings(record=True) as told, sdpa_kernel(backend):
        warnings.simplefilter("always")
        try:
            finite(attend(*sets[0], **options))
        except RuntimeError as problem:  # the reasons are in the warnings
            return {**error_of(problem), "reasons": [first_line(warning.message) for warning in told]}
        fields = timed(device, [lambda s=s: attend(*s, **options) for s in sets], 0.1)
    operations = 4 * shape.q * tokens * (tokens + 1) // 2
    return {"buffers": len(sets), "operations": operations, **fields, "tflop_per_s": operations / fields["seconds"] / 1e12}


def sdpa(flags, results):
    """If a backend refuses grouped heads, it is also measured with keys and values that were expanded before. The expansion is not timed."""
    from torch.nn.attention import SDPBackend

    backends = ["FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION"] + (["MATH"] if flags.device == "cpu" else [])
    for name in flags.shape:
        shape = SHAPES[name]
        for tokens in flags.prompts:
            for backend in backends:
                for grouped in ["none"] if shape.kv_heads == shape.heads else ["enable_gqa", "expanded"]:
                    keys = {"what": "sdpa", "shape": name, "prompt": tokens, "backend": backend, "grouped": grouped}
                    entry = results.measure(keys, lambda: attention_of(flags.device, shape, tokens, getattr(SDPBackend, backend), grouped))
                    if entry is None or "error" not in entry:
                        break


# Step 3: transformers


def config_of(shape, longest):
    """The config of a shape. The RoPE base and the end tokens are transformers' defaults, because they do not change the work."""
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.ffn,
        vocab_size=shape.vocabulary,
        max_position_embeddings=longest,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
        dtype="bfloat16",
    )


def check_rotary(model):
    """Raises if the rotary frequencies are not those of the config, since no_init_weights may skip buffers."""
    rotary, config = model.model.rotary_emb, model.config
    head_dim = config.hidden_size // config.num_attention_heads
    base = float(config.rope_parameters["rope_theta"])
    expected = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if rotary.inv_freq.dtype != torch.float32 or not torch.allclose(rotary.inv_freq.cpu().double(), expected, rtol=1e-5):
        raise ValueError("the rotary frequencies of the model are wrong")


def model_of(device, shape, longest):
    """Makes a model. Its weights are drawn with a standard deviation of 0.02; norms are 1."""
    from transformers import LlamaForCausalLM
    from transformers.initialization import no_init_weights

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device), no_init_weights():
            model = LlamaForCausalLM(config_of(shape, longest)).eval()
    finally:
        torch.set_default_dtype(before)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dtype != torch.bfloat16 or weight.device.type != device:
                raise ValueError(f"{name} is {weight.dtype} on {weight.device}")
            weight.fill_(1) if weight.dim() == 1 else weight.normal_(0, 0.02)
    check_rotary(model)
    if model.config._attn_implementation != "sdpa":
        raise ValueError(f"the model attends by {model.config._attn_implementation}")
    return model


def next_token(output):
    return output.logits[:, -1:].argmax(-1)


def run_of(device, model, prompt, cache, step):
    """Returns the seconds of a prefill, until the device has chosen the first token, and the seconds per decoded token. `step` runs the model on
    one token."""
    synchronize(device)
    start = time.perf_counter()
    output = model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)
    token = next_token(output)
    synchronize(device)
    prefilled = time.perf_counter()
    for _ in range(DECODED):
        token = next_token(step(token, cache))
    synchronize(device)
    decoded = time.perf_counter()
    finite(output.logits)
    return prefilled - start, (decoded - prefilled) / DECODED


def runs_of(device, model, tokens, new_cache, step):
    """Prefill and decode seconds of REPETITIONS runs, each with another prompt, after a first run that is not counted."""
    timings = []
    for _ in range(1 + REPETITIONS):
        prompt = torch.randint(0, model.config.vocab_size, (1, tokens), device=device)
        timings.append(run_of(device, model, prompt, new_cache(), step))
    return list(zip(*timings[1:]))


def eager_of(device, model, tokens):
    from transformers import DynamicCache

    def step(token, cache):
        return model(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1)

    prefills, decodes = runs_of(device, model, tokens, lambda: DynamicCache(config=model.config), step)
    peak = {"peak_bytes": torch.cuda.max_memory_allocated()} if device == "cuda" else {}
    return {"prefill": statistics_of(prefills, 1), "decode": statistics_of(decodes, DECODED), **peak}


def compiled_of(device, model, tokens):
    """Decoding by one compiled step over a cache of fixed length. The first run compiles the step, so the
    time of this run is kept as `compile_seconds`."""
    from transformers import StaticCache

    torch._dynamo.reset()  # a prompt of another length has a cache of another length, so the step is compiled again
    compiled = torch.compile(model.__call__, mode="reduce-overhead", dynamic=False)
    cache = StaticCache(config=model.config, max_cache_len=tokens + DECODED)

    def emptied():
        cache.reset()
        return cache

    def step(token, cache):
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(input_ids=token, past_key_values=cache, use_cache=True, logits_to_keep=1)

    start = time.perf_counter()
    run_of(device, model, torch.randint(0, model.config.vocab_size, (1, tokens), device=device), emptied(), step)
    compile_seconds = time.perf_counter() - start
    _, decodes = runs_of(device, model, tokens, emptied, step)
    return {**statistics_of(decodes, DECODED), "compile_seconds": compile_seconds}


def eager_entries(flags, results, name, model, tokens):
    """One measurement gives two entries: a prefill and the decoding after it."""
    keys = {"shape": name, "prompt": tokens, "mode": "eager"}
    if not results.in_time({"what": "prefill and decode", **keys}):
        return
    found = attempted(lambda: eager_of(flags.device, model, tokens))
    if "error" in found:
        results.add({"what": "prefill", **keys, **found})
        results.add({"what": "decode", **keys, **found})
        return
    prefill, decode = found.pop("prefill"), found.pop("decode")
    results.add({"what": "prefill", **keys, **prefill, **found, "tokens_per_s": tokens / prefill["seconds"]})
    results.add({"what": "decode", **keys, **decode, **found, "tokens_per_s": 1 / decode["seconds"]})


def transformers(flags, results):
    import transformers as library

    results.document["device"]["transformers"] = library.__version__
    for name in flags.shape:
        made = []

        def make():
            start = time.perf_counter()
            made.append(model_of(flags.device, SHAPES[name], max(flags.prompts) + DECODED))
            synchronize(flags.device)
            return {"parameters": sum(weight.numel() for weight in made[0].parameters()), "creation_seconds": time.perf_counter() - start}

        entry = results.measure({"what": "model", "shape": name}, make)
        if entry is None or "error" in entry:
            continue
        model = made.pop()
        for tokens in flags.prompts:
            if flags.device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            eager_entries(flags, results, name, model, tokens)
        for tokens in flags.prompts if flags.compiled else []:
            keys = {"what": "decode", "shape": name, "prompt": tokens, "mode": "compiled"}
            results.measure(keys, lambda: compiled_of(flags.device, model, tokens))
        del model
        free_memory()


# Arguments


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail("arguments", "those that --help shows", first_line(message))


def counts(text):
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        fail("-P", "numbers above 0 with commas between them", text)
    return values


def flags_of(arguments):
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("step", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--out", required=True, help="the file to write")
    parser.add_argument("--seconds", help="start no measurement later than this after the start; default: no limit")
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--shape", help=f"one or more of {', '.join(SHAPES)}; default: all but tiny, and tiny on the CPU")
    parser.add_argument("-P", dest="prompts", help="lengths of the prompts; for ceilings, rows of the products")
    parser.add_argument("--compiled", action="store_true", help="transformers: also decode with StaticCache and torch.compile")
    flags = parser.parse_args(arguments)
    if flags.step not in STEPS:
        fail("STEP", " or ".join(STEPS), flags.step)
    if flags.device not in ("cuda", "cpu"):
        fail("--device", "cuda or cpu", flags.device)
    if flags.seconds is not None:
        try:
            flags.seconds = float(flags.seconds)
        except ValueError:
            fail("--seconds", "a number", flags.seconds)
        if not flags.seconds > 0:
            fail("--seconds", "a number above 0", flags.seconds)
    flags.shape = flags.shape.split(",") if flags.shape else ["tiny"] if flags.device == "cpu" else list(roofline.SHAPES)
    for name in flags.shape:
        if name not in SHAPES:
            fail("--shape", " or ".join(SHAPES), name)
    flags.prompts = counts(flags.prompts) if flags.prompts else SMALL_PROMPTS if flags.device == "cpu" else PROMPTS[flags.step]
    return flags


def main():
    flags = flags_of(sys.argv[1:])
    if torch is None:
        missing(f"torch is missing: {first_line(TORCH_PROBLEM)}")
    if flags.device == "cuda" and not torch.cuda.is_available():
        missing("torch sees no CUDA device")
    if flags.step == "transformers":
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
        try:
            import transformers as _  # noqa: F401
        except (ImportError, OSError) as problem:
            missing(f"transformers is missing: {first_line(problem)}")
    results = Results(flags.out, flags.step, flags.seconds)
    try:
        results.write()
    except OSError as problem:
        fail("--out", "a file that can be written", problem)
    torch.manual_seed(1)
    results.document["device"] = describe(flags.device)
    with torch.inference_mode():
        {"ceilings": ceilings, "sdpa": sdpa, "transformers": transformers}[flags.step](flags, results)
    results.finish()


if __name__ == "__main__":
    main()
