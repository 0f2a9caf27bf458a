// SPDX-License-Identifier: MIT
// The only file that maps backend names to engines. Each backend is compiled in its own file, cuda by nvcc.
#include "engine/engine.hpp"

#include <cstdlib>
#include <iostream>
#include <utility>

#include <lazyprune/backend/cpu/isa.hpp>
#include <lazyprune/model/config.hpp>

#include "engine/backend_engines.hpp"
#include "engine/cuda_engine.hpp"
#include "models/loading.hpp"
#include "models/model_choice.hpp"
#include "tables/number_text.hpp"
#include "terminal/progress.hpp"

namespace lazyprune {
namespace program {
namespace {

/// Combines the flags and LAZYPRUNE_ISA.
execution execution_of(const backend_flags& flags) {
  execution how{.threads = flags.threads, .kv = kv_type_of(flags), .exact = flags.exact};
  const char* name = std::getenv("LAZYPRUNE_ISA");
  if (flags.backend == "cpu" && name && *name) how.instructions = isa_named(name, "LAZYPRUNE_ISA");
  return how;
}

std::unique_ptr<engine> load(const backend_flags& flags, const weights_source& from) {
  check(flags);
  if (const std::string device = device_of(flags); !device.empty()) std::cerr << "device: " << device << std::endl;
  progress_bar bar("loading");
  load_options options{.as = {}, .progress = [&](std::size_t done, std::size_t of) { bar.show(done, of); }};
  const execution how = execution_of(flags);
  if (flags.backend == "reference") {
    options.as = dtype::f32;  // f32 holds every bf16 number exactly
    return flags.dtype == "f32" ? load_float_engine(how, options, from) : load_double_engine(how, options, from);
  }
  if (flags.dtype == "f32") options.as = dtype::f32;
  if (flags.dtype == "bf16") options.as = dtype::bf16;
  return flags.backend == "cuda" ? load_cuda_engine(how, options, from) : load_cpu_engine(how, options, from);
}

}  // namespace

std::size_t engine::kv_row_bytes() const { return (kv_token_bytes() + config().layers - 1) / config().layers; }

std::optional<dtype> kv_type_of(const backend_flags& flags) {
  for (const dtype type : every_kv_type)
    if (flags.kv == lazyprune::name_of(type)) return type;
  return std::nullopt;
}

void check(const backend_flags& flags) {
  const std::string_view backends = built_with_cuda() ? "cpu, reference or cuda" : "cpu or reference";
  if (flags.backend == "cuda" && !built_with_cuda())
    throw error("--backend", "", backends, "cuda; this program was built without it (build with nvcc and cmake -DLAZYPRUNE_CUDA=ON)");
  if (flags.backend != "cpu" && flags.backend != "reference" && flags.backend != "cuda")
    throw error("--backend", "", backends, flags.backend);
  const bool reference = flags.backend == "reference";
  const bool known = flags.dtype == "auto" || flags.dtype == "f32" || flags.dtype == (reference ? "f64" : "bf16");
  if (!known)
    throw error("--dtype", "", (reference ? "auto, f64 or f32" : "auto, f32 or bf16") + (" with the " + flags.backend + " backend"),
                flags.dtype);
  const std::optional<dtype> kv = kv_type_of(flags);
  const bool has_kv = kv && !reference && (flags.backend == "cpu" || kv == dtype::f32 || kv == dtype::bf16);
  if (flags.kv != "auto" && !has_kv)
    throw error("--kv", "",
                (reference                ? "auto, which computes keys and values in the type of --dtype,"
                 : flags.backend == "cpu" ? "auto, f32, bf16, f16 or q8_0"
                                          : "auto, f32 or bf16") +
                    (" with the " + flags.backend + " backend"),
                flags.kv);
  if (flags.backend == "cuda" && flags.threads > 0)
    throw error("--threads", "", "no --threads with --backend cuda: the GPU computes", std::to_string(flags.threads));
  isa_of(flags);
}

std::string_view isa_of(const backend_flags& flags) {
  if (flags.backend == "cuda") return this_gpu().isa;
  return flags.backend == "reference" ? "generic" : name_of(lazyprune::isa_of(execution_of(flags)));
}

std::string device_of(const backend_flags& flags) {
  if (flags.backend != "cuda") return "";
  return this_gpu().name + ", " + bytes_text(this_gpu().memory) + ", " + this_gpu().isa;
}

std::vector<std::string_view> isas_here() {
  std::vector<std::string_view> names;
  for (const isa i : every_isa)
    if (has(i)) names.push_back(name_of(i));
  return names;
}

std::unique_ptr<engine> load_engine(const backend_flags& flags, const opened_model& source) {
  return load(flags, {.files = &source.files()});
}

std::unique_ptr<engine> load_engine(const backend_flags& flags, const model_config& config, const random_source& source) {
  return load(flags, {.config = &config, .numbers = &source});
}

}  // namespace program
}  // namespace lazyprune
