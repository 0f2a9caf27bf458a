// SPDX-License-Identifier: MIT
#include <lazyprune/files/gguf.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <files/gguf_writer.hpp>
#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::gguf_contents;
using lazyprune::gguf_file;
using lazyprune::gguf_value;
using lazyprune::mapped_file;
using lazyprune::parse_gguf;
using lazyprune::stored_tensor;

namespace {

gguf_contents parse(const std::string& file) { return parse_gguf(std::as_bytes(std::span(file)), "f"); }
fault said(const std::string& file) {
  return error_of([&] { parse(file); });
}

/// Returns the error of `get` for the value of this key.
template <class Get>
fault said_of(const std::string& key, Get get) {
  const std::string file = gguf_bytes({key}, {});
  const gguf_contents contents = parse(file);
  return error_of([&] { get(gguf_value("f", contents.metadata.at(0))); });
}
template <class Get>
auto value_of(const std::string& key, Get get) {
  const std::string file = gguf_bytes({key}, {});
  const gguf_contents contents = parse(file);
  return get(gguf_value("f", contents.metadata.at(0)));
}

/// Checks that each tensor and value is inside the file, and that each tensor has as many bytes as its shape needs.
void check_sound(const std::string& file, const gguf_contents& contents) {
  const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
  const auto* const end = begin + file.size();
  for (const stored_tensor& t : contents.tensors) {
    REQUIRE(t.data.data() >= begin);
    REQUIRE(t.data.data() + t.data.size() <= end);
    const auto& type = *lazyprune::ggml_type_of(t.type);
    std::uint64_t values = 1;
    for (const std::uint64_t n : t.shape) values *= n;
    REQUIRE(t.data.size() * type.values == values * type.bytes);
  }
  std::size_t bytes = 0;
  for (const auto& entry : contents.metadata) {
    REQUIRE(entry.bytes.data() >= begin);
    REQUIRE(entry.bytes.data() + entry.bytes.size() <= end);
    const gguf_value value("f", entry);
    if (value.is_string()) bytes += value.string().size();
    if (value.is_array()) {
      error_of([&] { bytes += value.strings(1000).size(); });
      error_of([&] { bytes += value.numbers(value.size()).size(); });
    }
  }
  REQUIRE(bytes <= file.size());
}

const std::string one_value = gguf_info("a", {8}, 0, 0);  // 8 floats, 32 bytes

}  // namespace

TEST_CASE("a small file, written by hand") {
  const std::string file = gguf_bytes(
      {gguf_key("b.number", 7u), gguf_key("a.text", "hello"), gguf_key("c.words", 9, gguf_array(8, 2, gguf_string("x") + gguf_string("")))},
      {gguf_info("two", {32, 3}, 2, 0), gguf_info("one", {5}, 0, 64)}, std::string(64 + 20, 'd'));
  const gguf_contents contents = parse(file);
  REQUIRE(contents.tensors.size() == 2);
  CHECK(contents.tensors[0].name == "one");
  CHECK(contents.tensors[0].shape == std::vector<std::uint64_t>{5});
  CHECK(contents.tensors[1].type == "Q4_0");
  CHECK(contents.tensors[1].shape == std::vector<std::uint64_t>{3, 32});
  CHECK(contents.tensors[1].data.size() == 3 * 18);
  CHECK(reinterpret_cast<const char*>(contents.tensors[0].data.data()) == file.data() + file.size() - 20);
  REQUIRE(contents.metadata.size() == 3);
  CHECK(contents.metadata[0].key == "a.text");

  const temporary_folder folder;
  const gguf_file opened{mapped_file(folder.write("f.gguf", file))};
  CHECK(opened.at("a.text").string() == "hello");
  CHECK(opened.at("b.number").whole_number() == 7);
  CHECK(opened.at("c.words").strings(2) == std::vector<std::string_view>{"x", ""});
  CHECK_FALSE(opened.find("b").has_value());
  CHECK(error_of([&] { opened.at("b"); }) == at(opened.name() + ": metadata", {"\"b\""}));
}

TEST_CASE("values of every type") {
  const auto whole = [](const gguf_value& v) { return v.whole_number(); };
  const auto number = [](const gguf_value& v) { return v.number(); };
  CHECK(value_of(gguf_key("k", 0, "\x7f"), whole) == 127);
  CHECK(value_of(gguf_key("k", 1, "\x7f"), whole) == 127);
  CHECK(value_of(gguf_key("k", 2, bytes_of_number<std::uint16_t>(65535)), whole) == 65535);
  CHECK(value_of(gguf_key("k", 3, bytes_of_number<std::int16_t>(9)), whole) == 9);
  CHECK(value_of(gguf_key("k", 4, bytes_of_number<std::uint32_t>(~0u)), whole) == 4294967295);
  CHECK(value_of(gguf_key("k", 5, bytes_of_number<std::int32_t>(9)), whole) == 9);
  CHECK(value_of(gguf_key("k", 10, bytes_of_number<std::uint64_t>(1)), whole) == 1);
  CHECK(value_of(gguf_key("k", 11, bytes_of_number<std::int64_t>(2)), whole) == 2);
  CHECK(value_of(gguf_key("k", 12, bytes_of_number(0.1)), number) == 0.1);
  CHECK(value_of(gguf_key("k", 1e-5f), number) == 1e-5);  // the double nearest to the float's shortest decimal text
  CHECK(value_of(gguf_key("k", 5, bytes_of_number<std::int32_t>(-9)), number) == -9);
  CHECK(value_of(gguf_key("k", true), [](const gguf_value& v) { return v.boolean(); }));
  CHECK(value_of(gguf_key("k", 9, gguf_array(6, 2, bytes_of_number(0.5f) + bytes_of_number(-2.0f))),
                 [](const gguf_value& v) { return v.numbers(v.size()); }) == std::vector<double>{0.5, -2});
  CHECK(value_of(gguf_key("k", 9, gguf_array(5, 0, "")), [](const gguf_value& v) { return v.numbers(v.size()); }).empty());
  CHECK(value_of(gguf_key("k", 9, gguf_array(8, 0, "")), [](const gguf_value& v) { return v.strings(2); }).empty());

  CHECK(said_of(gguf_key("k", "x"), whole) == at("f: metadata: k", {"9223372036854775808", "\"x\""}));
  CHECK(said_of(gguf_key("k", 5, bytes_of_number<std::int32_t>(-9)), whole) == at("f: metadata: k", {"9223372036854775808", ", found -9"}));
  CHECK(said_of(gguf_key("k", 1.5f), whole) == at("f: metadata: k", {"9223372036854775808", "1.5"}));
  CHECK(said_of(gguf_key("k", 5u), [](const gguf_value& v) { return v.whole_number(6, 7); }) == at("f: metadata: k", {", found 5"}));
  CHECK(said_of(gguf_key("k", std::numeric_limits<float>::quiet_NaN()), number) == at("f: metadata: k"));
  CHECK(said_of(gguf_key("k", true), number) == at("f: metadata: k"));
  CHECK(said_of(gguf_key("k", 3u), [](const gguf_value& v) { return v.string(); }) == at("f: metadata: k", {", found 3"}));
  CHECK(said_of(gguf_key("k", 3u), [](const gguf_value& v) { return v.boolean(); }) == at("f: metadata: k", {", found 3"}));
  CHECK(said_of(gguf_key("k", 3u), [](const gguf_value& v) { return v.strings(2); }) == at("f: metadata: k", {", found 3"}));
  CHECK(said_of(gguf_key("k", 9, gguf_array(0, 3, "abc")), [](const gguf_value& v) { return v.strings(2); }) == at("f: metadata: k"));
  CHECK(said_of(gguf_key("k", 9, gguf_array(8, 0, "")), [](const gguf_value& v) { return v.numbers(v.size()); }) == at("f: metadata: k"));
}

TEST_CASE("arrays are counted before their numbers or strings are copied") {
  const std::string many = gguf_key("k", 9, gguf_array(0, 1 << 20, std::string(1 << 20, 'x')));
  CHECK(said_of(many, [](const gguf_value& v) { return v.numbers(3); }) == at("f: metadata: k", {"3", "1048576"}));
  CHECK(said_of(gguf_key("k", 9, gguf_array(8, 3, std::string(24, '\0'))), [](const gguf_value& v) { return v.strings(2); }) ==
        at("f: metadata: k", {"2", "3"}));
  CHECK(value_of(gguf_key("k", 9, gguf_array(8, 3, std::string(24, '\0'))), [](const gguf_value& v) { return v.strings(3); }).size() == 3);
}

TEST_CASE("rare but valid files are read") {
  CHECK(parse(gguf_bytes({}, {})).tensors.empty());
  CHECK(parse(gguf_head(0, 0, 2)).metadata.empty());
  CHECK(parse(gguf_head(0, 0) + std::string(8, '\0')).tensors.empty());  // padded, although no data follows
  CHECK(parse(gguf_bytes({}, {one_value}, std::string(32, 'd'))).tensors[0].data.size() == 32);
  CHECK(parse(gguf_bytes({}, {gguf_info("a", {}, 0, 0)}, "abcd")).tensors[0].shape.empty());
  CHECK(parse(gguf_bytes({}, {gguf_info("a", {1}, 0, 0)}, std::string(32, 'd'))).tensors[0].data.size() == 4);  // padded after the data
  CHECK(parse(gguf_bytes({}, {gguf_info("a", {32, 0}, 2, 0)})).tensors[0].data.empty());
  CHECK(parse(gguf_bytes({}, {gguf_info("b", {8}, 0, 32), one_value}, std::string(64, 'd'))).tensors[0].name == "a");  // in any order
  CHECK(parse(gguf_bytes({}, {gguf_info("z", {8}, 0, 0), gguf_info("a", {0}, 0, 0)}, std::string(32, 'd'))).tensors.size() == 2);
  CHECK(parse(gguf_bytes({gguf_key("general.alignment", 64u)}, {gguf_info("b", {8}, 0, 64), one_value}, std::string(96, 'd'), 64))
            .tensors.size() == 2);
  const std::string nested = gguf_array(9, 2, gguf_array(7, 1, std::string(1, '\1')) + gguf_array(8, 1, gguf_string("x")));
  CHECK(parse(gguf_bytes({gguf_key("k", 9, nested)}, {})).metadata.size() == 1);
}

TEST_CASE("malformed files: each is refused, and the error says why") {
  const std::string huge = bytes_of_number(~std::uint64_t{0});
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += bytes_of_number(9u) + bytes_of_number<std::uint64_t>(1);
  struct bad {
    std::string file, error;
  };
  const bad all[] = {
      // Header.
      {"", "f: header: expected a GGUF file, found no bytes"},
      {"GGU", "f: header: expected a GGUF file, found \"GGU\""},
      {"GGUX" + gguf_head(0, 0).substr(4), "f: header: expected a GGUF file, found \"GGUX\""},
      {"GGUF", "f: header: expected 4 bytes for a version, found 0 before the end of the file"},
      {gguf_head(0, 0, 0), "f: header: expected version 2 or 3, found 0"},
      {gguf_head(0, 0, 1), "f: header: expected version 2 or 3, found version 1, whose lengths have 32 bits"},
      {gguf_head(0, 0, 4), "f: header: expected version 2 or 3, found 4"},
      {gguf_head(0, 0, 0x03000000), "f: header: expected a little-endian file, found a big-endian one"},
      {gguf_head(0, 0).substr(0, 20), "f: header: expected 8 bytes for the number of keys, found 4 before the end of the file"},
      {gguf_head(1, 0), "f: header: expected a count of at most 0 tensors, because of the file's size or the limit of 1000000, found 1"},
      {gguf_head(0, ~std::uint64_t{0}),
       "f: header: expected a count of at most 0 keys, because of the file's size or the limit of 1000000, found 18446744073709551615"},
      {gguf_head(0, 2'000'000) + std::string(28'000'000, 'x'),
       "f: header: expected a count of at most 1000000 keys, because of the file's size or the limit of 1000000, found 2000000"},
      // Keys and values.
      {gguf_bytes({gguf_string("") + std::string(20, '\0')}, {}), "f: metadata: key 0: expected a key of 1 to 65535 bytes, found 0"},
      {gguf_bytes({gguf_key(std::string(65536, 'k'), 7u)}, {}), "f: metadata: key 0: expected a key of 1 to 65535 bytes, found 65536"},
      {gguf_bytes({gguf_key("k\xff", 7u)}, {}), "f: metadata: k\\xff: expected a key in UTF-8, found something else"},
      {gguf_bytes({huge + "12345678"}, {}), "f: metadata: key 0: expected 18446744073709551615 bytes for a key, found 8 before the end"},
      {gguf_bytes({gguf_key("k", 13, "12345678")}, {}), "f: metadata: k: expected a type below 13, found 13"},
      {gguf_bytes({gguf_key("k", 10, "1234")}, {}), "f: metadata: k: expected 8 bytes for a value, found 4 before the end of the file"},
      {gguf_bytes({gguf_key("k", 8, huge)}, {}),
       "f: metadata: k: expected 18446744073709551615 bytes for a string, found 0 before the end"},
      {gguf_bytes({gguf_key("k", 7, "\7")}, {}), "f: metadata: k: expected 0 or 1 for a boolean, found 7"},
      {gguf_bytes({gguf_key("k", 9, gguf_array(7, 2, "\1\2"))}, {}), "f: metadata: k: expected 0 or 1 for a boolean, found 2"},
      {gguf_bytes({gguf_key("k", 9, gguf_array(200, 0, ""))}, {}), "f: metadata: k: expected a type below 13, found 200"},
      {gguf_bytes({gguf_key("k", 9, gguf_array(10, std::uint64_t{1} << 61, "12345678"))}, {}),
       "f: metadata: k: expected a count of at most 1 values, because the file has no room for more, found 2305843009213693952"},
      {gguf_bytes({gguf_key("k", 9, gguf_array(8, 3, gguf_string("x")))}, {}),
       "f: metadata: k: expected a count of at most 1 values, because the file has no room for more"},
      {gguf_bytes({gguf_key("k", 9, deep)}, {}), "f: metadata: k: expected arrays in at most 8 levels, found more"},
      {gguf_bytes({gguf_key("k", 7u), gguf_key("k", "x")}, {}), "f: metadata: k: expected the key once, found it twice"},
      {gguf_bytes({gguf_key("general.alignment", "32")}, {}), "f: metadata: general.alignment: expected a whole number from 0 to "},
      {gguf_bytes({gguf_key("general.alignment", 0u)}, {}),
       "f: metadata: general.alignment: expected a power of two from 8 to 1048576, found 0"},
      {gguf_bytes({gguf_key("general.alignment", 24u)}, {}), "f: metadata: general.alignment: expected a power of two from 8 to 1048576"},
      {gguf_bytes({gguf_key("general.alignment", 1u << 31)}, {}),
       "f: metadata: general.alignment: expected a power of two from 8 to 1048576"},
      // Tensors.
      {gguf_bytes({}, {gguf_info("", {8}, 0, 0)}), "f: tensor 0: expected a name of 1 to 64 bytes, found 0"},
      {gguf_bytes({}, {gguf_info(std::string(65, 'n'), {8}, 0, 0)}), "f: tensor 0: expected a name of 1 to 64 bytes, found 65"},
      {gguf_bytes({}, {gguf_info("a", {1, 1, 1, 1, 1}, 0, 0)}), "f: tensor a: expected at most 4 dimensions, found 5"},
      {gguf_bytes({}, {gguf_info("a", {8}, 1000, 0)}), "f: tensor a: expected a known type, found 1000"},
      {gguf_bytes({}, {gguf_info("a", {8}, 4, 0)}), "f: tensor a: expected a known type, found 4"},
      {gguf_bytes({}, {gguf_info("a", {48}, 2, 0)}), "f: tensor a: expected rows of whole blocks: a multiple of 32 for Q4_0, found 48"},
      {gguf_bytes({}, {gguf_info("a", {std::uint64_t{1} << 33, std::uint64_t{1} << 33}, 0, 0)}),
       "f: tensor a: expected fewer than 2^61 bytes, found [8589934592, 8589934592] of F32"},
      {gguf_bytes({}, {gguf_info("a", {std::uint64_t{1} << 62}, 0, 0)}),
       "f: tensor a: expected fewer than 2^61 bytes, found [4611686018427387904] of F32"},
      {gguf_bytes({}, {gguf_info("a", {~std::uint64_t{31}}, 0, 0)}), "f: tensor a: expected fewer than 2^61 bytes, found "},
      {gguf_bytes({}, {gguf_info("a", {8}, 0, 4)}, std::string(64, 'd')),
       "f: tensor a: expected an offset that is a multiple of 32, found 4"},
      {gguf_bytes({}, {gguf_info("a", {8}, 0, 32)}, std::string(64, 'd')),
       "f: tensor a: expected to begin at byte 0 of the data, found 32"},
      {gguf_bytes({}, {gguf_info("a", {8}, 0, ~std::uint64_t{31})}, std::string(64, 'd')),
       "f: tensor a: expected to begin at byte 0 of the data, found 18446744073709551584"},
      {gguf_bytes({}, {one_value, gguf_info("b", {8}, 0, 0)}, std::string(64, 'd')),
       "f: tensor b: expected to begin at byte 32 of the data, found 0"},
      {gguf_bytes({}, {gguf_info("a", {16}, 0, 0), gguf_info("b", {8}, 0, 32)}, std::string(64, 'd')),
       "f: tensor b: expected to begin at byte 64 of the data, found 32"},
      {gguf_bytes({}, {one_value, gguf_info("b", {8}, 0, 96)}, std::string(128, 'd')),
       "f: tensor b: expected to begin at byte 32 of the data, found 96"},
      {gguf_bytes({}, {one_value, gguf_info("a", {8}, 0, 32)}, std::string(64, 'd')), "f: tensor a: expected one of that name, found two"},
      // End.
      {gguf_bytes({}, {one_value}), "f: tensor a: expected 32 bytes from byte 0 of the data on, found 0 in all"},
      {gguf_bytes({}, {one_value}, std::string(31, 'd')), "f: tensor a: expected 32 bytes from byte 0 of the data on, found 31 in all"},
      {gguf_bytes({}, {one_value}, std::string(33, 'd')), "f: expected the end after 32 bytes of data, found 33 bytes"},
      {gguf_bytes({}, {gguf_info("a", {1}, 0, 0)}, std::string(31, 'd')), "f: expected the end after 4 bytes of data, found 31 bytes"},
  };
  for (const bad& b : all) {
    CAPTURE(b.error);
    const std::string result = said(b.file);
    CHECK(result.starts_with(b.error));
    CHECK(result.size() < 250);
  }
}

TEST_CASE("malformed files from others: those that every reader must refuse are refused, and valid ones are read" NEEDS("data")) {
  const auto folder = test_data("gguf/malformed");
  if (folder.empty()) return;
  std::size_t refused = 0, read = 0;
  for (const auto& entry : nlohmann::json::parse(read_text(folder / "index.json"))) {
    const std::string name = entry.at("file"), refuse = entry.at("refuse");
    CAPTURE(name);
    const std::string said = error_of([&] { gguf_file{mapped_file(folder / name)}; });
    CAPTURE(said);
    if (refuse == "file") CHECK(said != "no error");
    if (refuse == "no" || refuse == "model") CHECK(said == "no error");
    (said == "no error" ? read : refused) += 1;
  }
  CHECK(refused > 50);
  CHECK(read > 25);
}

TEST_CASE("half-written files and a file of version 1 are refused" NEEDS("data")) {
  const auto folder = test_data("models");
  if (folder.empty()) return;
  for (const char* name : {"truncated-by-failed-quantize-q4_0.gguf", "truncated-by-failed-quantize-q8_0.gguf"})
    CHECK(error_of([&] { gguf_file{mapped_file(folder / "malformed" / name)}; }) != "no error");
  CHECK(error_of([&] {
          gguf_file{mapped_file(folder / "stories260K/tinyllamas-stories-260k-f32.gguf")};
        }).ends_with("header: expected version 2 or 3, found version 1, whose lengths have 32 bits"));
}

TEST_CASE("a real file that is cut short is an error" NEEDS("data")) {
  const auto path = test_data("models/stories260K/stories260K-f16.gguf");
  if (path.empty()) return;
  const std::string whole = read_text(path);
  const auto bytes = std::as_bytes(std::span(whole));
  const std::size_t table = static_cast<std::size_t>(parse(whole).tensors.at(0).data.data() - bytes.data());
  REQUIRE(table < whole.size());
  for (std::size_t size = 0; size < whole.size(); size += size < 20'000 ? 7 : 4099)
    REQUIRE(error_of([&] { parse_gguf(bytes.first(size), "f"); }) != "no error");
  CHECK(said(whole) == "no error");
}

TEST_CASE("any flipped bit of a header gives an error, or tensors and values inside the file") {
  std::string file =
      gguf_bytes({gguf_key("general.architecture", "llama"), gguf_key("llama.block_count", 2u), gguf_key("k", true),
                  gguf_key("general.alignment", 32u), gguf_key("words", 9, gguf_array(8, 2, gguf_string("one") + gguf_string("two"))),
                  gguf_key("scores", 9, gguf_array(6, 2, bytes_of_number(1.0f) + bytes_of_number(2.0f)))},
                 {gguf_info("one", {32, 3}, 2, 0), gguf_info("two", {5, 2, 1}, 1, 64)}, std::string(64 + 32, 'd'));
  std::size_t refused = 0;
  const std::size_t bits = (file.size() - 96) * 8;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8);
    gguf_contents contents;
    refused += error_of([&] { contents = parse(file); }) != "no error";
    check_sound(file, contents);
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ 1 << bit % 8);
  }
  CHECK(refused > bits / 4);
  CHECK(refused < bits);  // a changed letter of a key or string is no error
}

TEST_CASE("random edits never give a tensor or value outside the file") {
  const std::string file = gguf_bytes(
      {gguf_key("a", "text"), gguf_key("n", 9, gguf_array(9, 1, gguf_array(4, 2, "12345678"))), gguf_key("general.alignment", 8u)},
      {gguf_info("one", {32, 3}, 2, 0), gguf_info("two", {5}, 0, 56)}, std::string(56 + 20, 'd'), 8);
  REQUIRE(said(file) == "no error");
  const std::string pieces[] = {
      std::string(1, '\0'), std::string(4, '\0'), std::string(8, '\xff'), bytes_of_number<std::uint64_t>(1), "\x08", "\x20"};
  std::mt19937 random(1);
  std::size_t accepted = 0;
  for (int run = 0; run < 30'000; ++run) {
    std::string text = file;
    for (std::size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const std::string piece = random() % 2 ? pieces[random() % std::size(pieces)] : std::string(1, static_cast<char>(random()));
      text.replace(at, random() % 2 ? piece.size() : random() % 9, piece);
    }
    gguf_contents contents;
    accepted += error_of([&] { contents = parse(text); }) == "no error";
    check_sound(text, contents);
  }
  CHECK(accepted > 0);  // changed strings, names and data are no error
}

TEST_CASE("a model in shards: the first shard leads to all others, and each must belong to the same model") {
  const temporary_folder folder;
  const auto part = [](std::uint64_t no, std::uint64_t count, std::uint64_t tensors, const std::string& name) {
    return gguf_bytes({gguf_key("split.no", 2, bytes_of_number(static_cast<std::uint16_t>(no))),
                       gguf_key("split.count", 2, bytes_of_number(static_cast<std::uint16_t>(count))),
                       gguf_key("split.tensors.count", 5, bytes_of_number(static_cast<std::int32_t>(tensors)))},
                      {gguf_info(name, {8}, 0, 0)}, std::string(32, name[0]));
  };
  const auto first = folder.write("m-00001-of-00002.gguf", part(0, 2, 2, "a"));
  const auto second = folder.write("m-00002-of-00002.gguf", part(1, 2, 2, "b"));
  const auto opened = lazyprune::open_gguf(first);
  REQUIRE(opened.size() == 2);
  CHECK(opened[0].tensors()[0].name == "a");
  CHECK(opened[1].tensors()[0].name == "b");
  const auto said = [](const std::filesystem::path& path) { return error_of([&] { lazyprune::open_gguf(path); }); };
  CHECK(said(second) == at(second.string() + ": metadata: split.no", {", found 1"}));
  CHECK(said(folder.write("other.gguf", part(0, 2, 2, "a")))
            .ends_with(": expected a name that ends in -00001-of-00002.gguf, found \"other.gguf\""));
  CHECK(said(folder.write("whole.gguf", part(0, 1, 1, "a"))) == "no error");
  folder.write("m-00002-of-00002.gguf", part(0, 2, 2, "b"));
  CHECK(said(first) == at(second.string() + ": metadata: split.no", {", found 0"}));
  folder.write("m-00002-of-00002.gguf", part(1, 3, 2, "b"));
  CHECK(said(first) == at(second.string() + ": metadata: split.count", {", found 3"}));
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2, "a"));
  CHECK(said(first) == at(second.string() + ": tensor a"));
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2, "b"));
  folder.write("m-00001-of-00002.gguf", part(0, 2, 3, "a"));
  CHECK(said(first) == at(first.string() + ": metadata: split.tensors.count", {", found 3"}));
  std::filesystem::remove(second);
  CHECK(said(first) == at(second.string()));
}
