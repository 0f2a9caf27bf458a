// SPDX-License-Identifier: MIT
#include <lazyprune/registry/parameters.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace {

using namespace lazyprune;

enum class colour : std::uint8_t { red, green };

/// A part that has a parameter of each kind.
struct everything_there_is {
  static constexpr std::string_view name = "everything_there_is";
  std::uint64_t whole = 7;
  float real = 0.5f;
  positive count = 3;
  fraction share = 0.25;
  layer_id layer = 2;
  bool flag = false;
  colour paint = colour::green;
  std::string word = "x";
  std::optional<positive> one{};
  std::optional<double> other = 1.5;

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("whole", whole);
    visit(required("real"), real);
    visit("count", count);
    visit("share", share);
    visit("layer", layer, layer_range{.least = 1});
    visit("flag", flag);
    visit("paint", paint, {"red", "green"});
    visit("word", word);
    visit.just_one("one", one, "other", other);
  }
};

/// A part with a bool. The part's text names the bool only if the bool is true.
struct switched {
  [[maybe_unused]] static constexpr std::string_view name = "switched";
  bool on = false;

  template <class Visitor>
  void describe(Visitor& visit) {
    visit(named_where_set("on"), on);
  }
};

/// A value that reads and writes its own text.
struct letter {
  char value;
  static std::string expected() { return "a letter"; }
  static std::optional<letter> read(std::string_view text) { return text.size() == 1 ? std::optional(letter{text[0]}) : std::nullopt; }
  std::string text() const { return {value}; }
};
struct written {
  [[maybe_unused]] static constexpr std::string_view name = "written";
  letter one{'a'};
  std::optional<letter> other{};

  template <class Visitor>
  void describe(Visitor& visit) {
    visit("one", one);
    visit("other", other);
  }
};

struct undescribed {};
struct needs_a_number {
  [[maybe_unused]] static constexpr std::string_view name = "needs_a_number";
  explicit needs_a_number(int) {}
  template <class Visitor>
  void describe(Visitor&) {}
};
static_assert(described_part<everything_there_is>);
static_assert(!describes_parameters<undescribed> && !described_part<needs_a_number>);

}  // namespace

TEST_CASE("a parameter has its key, the expected values, and its value as text") {
  everything_there_is object;
  const std::vector<parameter> all = parameters_of(object);
  auto is = [&, i = std::size_t{0}](std::string_view key, const char* expected, std::optional<std::string> text) mutable {
    REQUIRE(i < all.size());
    CAPTURE(key);
    CHECK(all[i].key == key);
    CHECK(all[i].expected == expected);
    CHECK(all[i].text() == text);
    CHECK(all[i].required == (key == "real"));
    CHECK(all[i].layers.has_value() == (key == "layer"));
    CHECK(all[i].instead_of == (key == "other" ? "one" : ""));
    ++i;
  };
  is("whole", "a whole number", "7");
  is("real", "a number", "0.5");
  is("count", "a whole number of at least 1", "3");
  is("share", "a share in (0, 1]", "0.25");
  is("layer", "a whole number", "2");
  is("flag", "", "false");
  is("paint", "", "green");
  is("word", "a text", "x");
  is("one", "a whole number of at least 1", std::nullopt);
  is("other", "a number", "1.5");
  CHECK(all.size() == 10);
  CHECK(all[6].choices == std::vector<std::string_view>{"red", "green"});
}

TEST_CASE("set changes the value, or keeps it if the text is not valid") {
  everything_there_is object;
  std::vector<parameter> all = parameters_of(object);
  const auto set = [&](std::string_view key, std::string_view text) {
    for (parameter& p : all)
      if (p.key == key) return p.set(text);
    return false;
  };
  CHECK(set("whole", "18446744073709551615"));
  CHECK(object.whole == 18446744073709551615u);
  CHECK(!set("whole", "-1"));
  CHECK(!set("whole", "1.0"));
  CHECK(object.whole == 18446744073709551615u);
  CHECK(set("real", "-0.125"));
  CHECK(object.real == -0.125f);
  CHECK(!set("real", "nan"));
  CHECK(!set("count", "0"));
  CHECK(object.count == 3);
  CHECK(set("share", "1"));
  CHECK(!set("share", "1.5"));
  CHECK(object.share == 1.0);
  CHECK(set("flag", "true"));
  CHECK(object.flag);
  CHECK(!set("flag", "yes"));
  CHECK(set("paint", "red"));
  CHECK(object.paint == colour::red);
  CHECK(!set("paint", "blue"));
  CHECK(set("word", ""));
  CHECK(object.word.empty());
  CHECK(set("one", "5"));
  CHECK(object.one.value() == 5);
  CHECK(!set("one", "0"));
  CHECK(object.one.value() == 5);
}

TEST_CASE("a bool with named_where_set has a text only if it is true") {
  switched object;
  const std::vector<parameter> all = parameters_of(object);
  REQUIRE(all.size() == 1);
  CHECK(all[0].text() == std::nullopt);
  CHECK(all[0].set("true"));
  CHECK(object.on);
  CHECK(all[0].text() == "true");
  CHECK(!all[0].set("yes"));
  CHECK(all[0].set("false"));
  CHECK(all[0].text() == std::nullopt);
}

TEST_CASE("a value with its own text form can be a parameter") {
  written object;
  const std::vector<parameter> all = parameters_of(object);
  REQUIRE(all.size() == 2);
  for (const parameter& p : all) CHECK(p.expected == "a letter");
  CHECK(all[0].text() == "a");
  CHECK(all[1].text() == std::nullopt);
  CHECK(all[0].set("b"));
  CHECK(all[1].set("c"));
  CHECK(!all[1].set("cd"));
  CHECK(all[0].text() == "b");
  CHECK(all[1].text() == "c");
}
