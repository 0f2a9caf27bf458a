// SPDX-License-Identifier: MIT
#include <lazyprune/policy/schedule/stages.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <fault.hpp>
#include "policy/contract.hpp"

using lazyprune_test::at;
using lazyprune_test::error_of;
using lazyprune_test::fault;

namespace {

using namespace contract;

struct stages_values {
  static std::vector<stages> all() {
    return {stages{}, stages{{0, 0.5}}, stages{{1, 0.7}, {2, 1.0}, {7, 0.01}}, stages{{9, 0.7}, {19, 0.5}, {28, 0.3}}};
  }
};
TEST_CASE_TEMPLATE_INVOKE(schedule_contract, stages_values);

fault stage_fault(const std::string& text) {
  return error_of([&] { stages::parse(text); });
}

TEST_CASE("stages prune after their layers, to a share of the active tokens") {
  const stages when{{0, 0.9}, {9, 0.7}, {19, 0.5}};
  for (layer_id done = 0; done < 32; ++done) {
    CAPTURE(done);
    const std::size_t expected = done == 0 ? 900 : done == 9 ? 700 : done == 19 ? 500 : everything;
    CHECK(when.keep({.done = done, .layers = 32, .active = 1000, .known = 5000, .step = phase::decode}) == expected);
  }
  CHECK(stages{}.keep({.done = 1, .layers = 2, .active = 10, .known = 10, .step = phase::prefill}) == everything);
}

TEST_CASE("stages are refused if the layers do not ascend or a share is invalid") {
  CHECK_THROWS_AS(static_cast<void>(stages{{9, 0.7}, {9, 0.5}}), error);
  CHECK_THROWS_AS(static_cast<void>(stages{{9, 0.7}, {8, 0.5}}), error);
  CHECK_THROWS_AS(static_cast<void>(stages{{9, 0.0}}), error);
  CHECK_THROWS_AS(static_cast<void>(stages{{9, 1.01}}), error);
  CHECK(stage_fault("9:0.7,9:0.5") == at("stages: stage 2", {"after 9", ", found 9"}));
}

TEST_CASE("parse reads LAYER:SHARE lists") {
  CHECK(stages::parse("9:0.7,19:0.5,28:0.3") == stages{{9, 0.7}, {19, 0.5}, {28, 0.3}});
  CHECK(stages::parse("0:1") == stages{{0, 1.0}});
  CHECK(stages::parse("4294967295:5e-1") == stages{{4294967295u, 0.5}});
  CHECK(stages::parse("") == stages{});
}

TEST_CASE("parse refuses other texts and names the wrong piece") {
  for (const std::string piece :
       {"x",     "9",         "9:",     ":0.5",   ":",      "9:0.7x", "9x:0.7", "9:0",    "9:-0.5",  "9:1.1",          "9:nan",
        "9:inf", "9:0.7:0.5", " 9:0.7", "9: 0.7", "9:0.7 ", "-1:0.7", "+9:0.7", "9:+0.7", "9.0:0.7", "4294967296:0.7", "9:0x1p-1",
        "9;0.7", "9:1e-999"}) {
    CAPTURE(piece);
    CHECK(stage_fault(piece) == at("stages: stage 1", {'"' + piece + '"'}));
    CHECK(stage_fault("3:0.9," + piece) == at("stages: stage 2", {'"' + piece + '"'}));
  }
  CHECK(stage_fault("9:0.7,") == at("stages: stage 2"));
  CHECK(stage_fault(",9:0.7") == at("stages: stage 1", {"\"\""}));
  CHECK(stage_fault("9:0.7,,19:0.5") == at("stages: stage 2", {"\"\""}));
  CHECK(stage_fault(std::string("9:0.7\0", 6)) == at("stages: stage 1"));
}

TEST_CASE("the text of stages reads back as the same stages") {
  CHECK(stages{{9, 0.7}, {19, 0.5}, {28, 1.0}}.text() == "9:0.7,19:0.5,28:1");
  CHECK(stages{}.text() == "");
  std::mt19937_64 random(17);
  for (int run = 0; run < 2'000; ++run) {
    std::vector<stage> list;
    layer_id after = 0;
    for (auto n = random() % 6; n > 0; --n) {
      list.push_back({after, 1.0 - static_cast<double>(random() >> 11) * 0x1p-53});
      after += 1 + static_cast<layer_id>(random() % 1000);
    }
    const stages when(list);
    CAPTURE(when.text());
    REQUIRE(stages::parse(when.text()) == when);
    REQUIRE(std::equal(list.begin(), list.end(), when.list().begin(), when.list().end()));
  }
}

}  // namespace
