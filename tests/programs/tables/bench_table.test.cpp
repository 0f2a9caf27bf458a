// SPDX-License-Identifier: MIT
#include "tables/bench_table.hpp"

#include <doctest/doctest.h>

using namespace lazyprune::program;

namespace {

bench_table some() {
  bench_table bench{.model = "m",
                    .dtype = "bf16",
                    .backend = "cpu",
                    .isa = "avx2",
                    .weight_bytes = 2048,
                    .load_seconds = 0.126,
                    .policy = "--stages 1:0.5",
                    .predict = 8,
                    .longest = 64,
                    .peaks = {},
                    .rows = {}};
  bench.rows.push_back({.threads = 1,
                        .sequences = 1,
                        .test = "pp64",
                        .prefill = true,
                        .policy = "dense",
                        .rate = 640,
                        .deviation = 1.5,
                        .seconds = 0.1,
                        .work = {},
                        .speedup = {},
                        .predicted = {},
                        .predicted_with_memory = {},
                        .overhead = 0.001,
                        .share_of_peak = {},
                        .peak_bytes = 4096,
                        .parts = {}});
  bench.rows.push_back(bench.rows.front());
  bench.rows.back().policy = "--stages 1:0.5";
  bench.rows.back().speedup = 1.5;
  bench.rows.back().predicted = 2;
  bench.rows.back().predicted_with_memory = 1.6;
  return bench;
}

}  // namespace

TEST_CASE("Markdown") {
  CHECK(
      to_markdown(some()) ==
      "model m, bf16, 2.00 KiB, cpu (avx2), loaded in 126 ms\n"
      "pruned: --stages 1:0.5\n"
      "tg8 follows the prompt of 64 tokens\n"
      "predicted: the speedup by computing alone; with memory: if layers of few rows (in tg, all layers) wait for their weights\n"
      "reached: the speedup, divided by the predicted one with memory\n"
      "memory: the peak, without the weights\n"
      "\n"
      "| threads |   test | policy |                 t/s | speedup | predicted | with memory | reached | overhead |    memory |\n"
      "| ------: | -----: | :----- | ------------------: | ------: | --------: | ----------: | ------: | -------: | --------: |\n"
      "|       1 |   pp64 | dense  |       640.00 \xc2\xb1 1.50 |         |           |             |         |   0.10 % |  2.00 KiB |\n"
      "|       1 |   pp64 | pruned |       640.00 \xc2\xb1 1.50 |   1.50x |     2.00x |       1.60x |    0.94 |   0.10 % |  2.00 KiB |\n");
}

TEST_CASE("if tokens were generated, a table has the times to the first and to the last token") {
  bench_table bench = some();
  CHECK(to_markdown(bench).find("last token") == std::string::npos);
  bench.rows.back().seconds = 0.0666;
  for (const std::size_t i : {0u, 1u}) {
    bench.rows.push_back(bench.rows[i]);
    bench.rows.back().prefill = false;
    bench.rows.back().test = "tg8";
    bench.rows.back().seconds = 2;
  }
  CHECK(
      to_markdown(bench).ends_with("\n\n"
                                   "| threads | prompt and answer | policy | first token | last token |\n"
                                   "| ------: | ----------------: | :----- | ----------: | ---------: |\n"
                                   "|       1 |        pp64 + tg8 | dense  |      100 ms |     2.10 s |\n"
                                   "|       1 |        pp64 + tg8 | pruned |     66.6 ms |     2.07 s |\n"));
}

TEST_CASE("if nothing is pruned, no line explains predictions") {
  bench_table bench = some();
  bench.policy.clear();
  bench.rows.pop_back();
  CHECK(to_markdown(bench).find("reached:") == std::string::npos);
}

TEST_CASE("a measured peak has a line, and the shares of the peak have a column") {
  bench_table bench = some();
  bench.peaks[1] = {"256-bit FMA", 5e10, 1.25e10};
  bench.rows.front().share_of_peak = 0.5;
  const std::string text = to_markdown(bench);
  CHECK(text.find("peak of 1 thread: 256-bit FMA 50.0 GFLOP/s, reading memory 12.5 GB/s\n") != std::string::npos);
  CHECK(text.find(" overhead | of peak |    memory |\n") != std::string::npos);
  CHECK(text.find("|   0.10 % |  50.0 % |  2.00 KiB |\n") != std::string::npos);
}

TEST_CASE("the parts of prefills have a table of their own, and columns in JSON and CSV") {
  bench_table bench = some();
  bench.rows.resize(1);
  bench.rows.front().parts = {{"norm", "norms", 0.02}, {"down", "down", 0.05, 1e9}};
  bench.rows.push_back(some().rows.front());
  bench.rows.back().test = "tg8";
  CHECK(to_markdown(bench).find("|       1 |    tg8 | dense  |") != std::string::npos);
  CHECK(
      to_markdown(bench).ends_with("\n\n"
                                   "| threads | test | policy | part  |    ms | of the time | GFLOP/s |\n"
                                   "| ------: | ---: | :----- | :---- | ----: | ----------: | ------: |\n"
                                   "|       1 | pp64 | dense  | norms | 20.00 |      28.6 % |         |\n"
                                   "|       1 | pp64 | dense  | down  | 50.00 |      71.4 % |    20.0 |\n"));
  bench.peaks[1] = {"256-bit FMA", 5e10, 1.25e10};
  CHECK(to_markdown(bench).ends_with("|       1 | pp64 | dense  | down  | 50.00 |      71.4 % |    20.0 |  40.0 % |\n"));
  CHECK(to_csv(table_of(bench)) ==
        "model,isa,dtype,threads,test,policy,tokens_per_s,seconds,speedup,predicted_speedup,predicted_with_memory,overhead_share,"
        "share_of_peak,peak_bytes,norm_seconds,down_seconds,down_share_of_peak\n"
        "\"m\",\"avx2\",\"bf16\",1,\"pp64\",\"dense\",640.0,0.1,,,,0.001,,4096,0.02,0.05,0.4\n"
        "\"m\",\"avx2\",\"bf16\",1,\"tg8\",\"dense\",640.0,0.1,,,,0.001,,4096,,,\n");
}

TEST_CASE("the type of keys and values that --kv names has a line, and a column before those of the parts") {
  bench_table bench = some();
  CHECK(to_markdown(bench).find("keys and values") == std::string::npos);
  bench.kv = "q8_0";
  bench.rows.front().parts = {{"attention", "attention", 0.5, std::nullopt}};
  CHECK(to_markdown(bench).find(" ms\nkeys and values: q8_0\n") != std::string::npos);
  const table t = table_of(bench);
  REQUIRE(t.columns.size() >= 2);
  CHECK(t.columns[t.columns.size() - 2].key == "kv");
  for (const auto& row : t.rows) CHECK(std::get<std::string>(row[t.columns.size() - 2]) == "q8_0");
}

TEST_CASE("batches have a column for the number of sequences; single sequences have it only in JSON") {
  bench_table bench = some();
  CHECK(to_json(table_of(bench)).find("\"sequences\": 1") != std::string::npos);
  bench.rows.back().sequences = 16;
  CHECK(to_json(table_of(bench)).find("\"sequences\": 16") != std::string::npos);
  CHECK(to_csv(table_of(bench)).starts_with("model,isa,dtype,threads,sequences,test,"));
  const std::string text = to_markdown(bench);
  CHECK(text.find("rates and memory are over all sequences of a batch\npredicted: ") != std::string::npos);
  CHECK(text.find("| threads | sequences |   test |") != std::string::npos);
  CHECK(text.find("|       1 |        16 |   pp64 | pruned |") != std::string::npos);
}

TEST_CASE("JSON alone has the time to load the weights") {
  CHECK(to_json(table_of(some())).find("\"seconds_to_load\": 0.126,") != std::string::npos);
  CHECK(to_csv(table_of(some())).find("seconds_to_load") == std::string::npos);
}

TEST_CASE("JSON and CSV leave out values without a meaning") {
  CHECK(to_csv(table_of(some())) ==
        "model,isa,dtype,threads,test,policy,tokens_per_s,seconds,speedup,predicted_speedup,predicted_with_memory,overhead_share,"
        "share_of_peak,peak_bytes\n"
        "\"m\",\"avx2\",\"bf16\",1,\"pp64\",\"dense\",640.0,0.1,,,,0.001,,4096\n"
        "\"m\",\"avx2\",\"bf16\",1,\"pp64\",\"--stages 1:0.5\",640.0,0.1,1.5,2.0,1.6,0.001,,4096\n");
}
