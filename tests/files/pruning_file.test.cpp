// SPDX-License-Identifier: MIT
#include <lazyprune/files/pruning_file.hpp>

#include <doctest/doctest.h>

#include <fault.hpp>
#include <files/support.hpp>

using namespace lazyprune;
using namespace lazyprune_test;

TEST_CASE("a pruning file without probes has stages and nothing else") {
  const temporary_folder folder;
  CHECK(pruning_file::read(folder.write("a.json", R"({"stages": "3:0.3,5:0.1"})")).stages == "3:0.3,5:0.1");
  const auto fault_of = [&](const char* text) {
    const std::filesystem::path file = folder.write("b.json", text);
    const fault found = error_of([&] { pruning_file::read(file); });
    return found;
  };
  const std::string file = (folder.path() / "b.json").string();
  CHECK(fault_of(R"({"stage": "3:0.3"})") == at(file + ": stage"));
  CHECK(fault_of("{}") == at(file));
  CHECK(fault_of(R"({"stages": 3})") == at(file + ": stages"));
  CHECK(error_of([&] { pruning_file::read(folder.path() / "none.json"); }) == at((folder.path() / "none.json").string()));
}

TEST_CASE("the file of a calibration reads back as it was written") {
  const temporary_folder folder;
  const pruning_file written{
      .stages = "3:0.3,5:0.1",
      .heads = calibrated_heads{.model = "a \"model\"",
                                .layers = 6,
                                .heads = 4,
                                .fingerprint = "0123456789abcdef",
                                .window = 16,
                                .keep_last = 48,
                                .block = 8,
                                .following = 2,
                                .probes = {{3, 1, 2, query_reduction::last, block_pooling::max, 0.1f},
                                           {3, 2, 3, query_reduction::max, block_pooling::mean, -2.5f, counted_block::next},
                                           {5, 3, 0, query_reduction::mean, block_pooling::mean, 1e-7f}},
                                .fitted_on = "8 prompts"}};
  CHECK(pruning_file::read(folder.write("a.json", written.text())) == written);
  CHECK(written.heads->scorer() ==
        "calibrated_attention:window=16,block=8,probes=3.1.2.last.max@0.1/3.2.3.max.mean.next@-2.5/5.3.0.mean.mean@1e-07,following=2");
  pruning_file alone = written;
  alone.heads->keep_last.reset();
  alone.heads->following.reset();
  CHECK(pruning_file::read(folder.write("a.json", alone.text())) == alone);
  const pruning_file stages_alone{.stages = "2:0.5"};
  CHECK(pruning_file::read(folder.write("a.json", stages_alone.text())) == stages_alone);
}

TEST_CASE("a calibration with a wrong key or value is refused") {
  const temporary_folder folder;
  const std::string file = (folder.path() / "b.json").string();
  const std::string probe = R"({"after": 3, "layer": 1, "head": 2, "queries": "last", "block": "max", "weight": 1})";
  const auto fault_of = [&](const std::string& model, const std::string& probes, const char* version = "1", const char* following = "1") {
    const std::string text = R"({"version": )" + std::string(version) + R"(, "model": )" + model + R"(, "following": )" + following +
                             R"(, "window": 64, "block": 32, "stages": "3:0.5", "probes": [)" + probes + R"(], "fitted_on": ""})";
    return error_of([&] { pruning_file::read(folder.write("b.json", text)); });
  };
  const std::string model = R"({"name": "m", "layers": 6, "heads": 4, "fingerprint": "0"})";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = probe;
    return changed.replace(changed.find(from), from.size(), to);
  };
  CHECK(pruning_file::read(folder.write("a.json", R"({"version": 1, "model": )" + model +
                                                      R"(, "window": 64, "block": 32, "stages": "3:0.5", "probes": [)" + probe +
                                                      R"(], "fitted_on": ""})"))
            .heads->probes.size() == 1);
  CHECK(fault_of(model, probe, "2") == at(file + ": version"));
  CHECK(fault_of(model, probe, "1", "0") == at(file + ": following", {"1 to", "0"}));
  CHECK(fault_of(R"({"name": "m", "layers": 6, "heads": 4})", probe) == at(file + ": model"));
  CHECK(fault_of(model, with("\"head\": 2", "\"head\": 4")) == at(file + ": probes[0].head", {"0 to 3", "4"}));
  CHECK(fault_of(model, with("\"after\": 3", "\"after\": 6")) == at(file + ": probes[0].after"));
  CHECK(fault_of(model, with("last", "first")) == at(file + ": probes[0].queries", {"last, max, mean", "first"}));
  CHECK(fault_of(model, with("\"weight\": 1", "\"weight\": 1, \"counts_for\": \"all\"")) ==
        at(file + ": probes[0].counts_for", {"own, next", "all"}));
  CHECK(fault_of(model, with("\"weight\": 1", "\"weight\": \"1\"")) == at(file + ": probes[0].weight"));
  CHECK(fault_of(model, with("\"layer\": 1", "\"layer\": 3")) == at(file + ": probes: probe 3.3.2.last.max@1"));
  CHECK(fault_of(model, "") == at(file + ": probes", {"at least one probe"}));
}
