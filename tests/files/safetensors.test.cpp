// SPDX-License-Identifier: MIT
#include <lazyprune/files/safetensors.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <files/support.hpp>
#include <test_data.hpp>

using namespace lazyprune_test;
using lazyprune::mapped_file;
using lazyprune::parse_safetensors;
using lazyprune::safetensors_file;
using lazyprune::stored_tensor;

namespace {

std::string little_endian(std::uint64_t n) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i) & 255);
  return bytes;
}

/// Returns a file with this header and `data` bytes of data.
std::string file_of(const std::string& header, std::size_t data = 0) {
  return little_endian(header.size()) + header + std::string(data, 'd');
}

std::vector<stored_tensor> parse(const std::string& file) { return parse_safetensors(std::as_bytes(std::span(file)), "f"); }
fault said(const std::string& file) {
  return error_of([&] { parse(file); });
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
std::string one(const std::string& type, const std::string& shape, const std::string& offsets) {
  return "{" + entry("t", type, shape, offsets) + "}";
}

/// Checks that each tensor is inside the file and has as many bytes as its shape needs.
void check_sound(const std::string& file, const std::vector<stored_tensor>& tensors) {
  const std::map<std::string_view, std::uint64_t> bits = {{"F64", 64}, {"F32", 32}, {"F16", 16}, {"BF16", 16}, {"I64", 64}, {"I8", 8}};
  const auto* const begin = reinterpret_cast<const std::byte*>(file.data());
  for (const stored_tensor& t : tensors) {
    REQUIRE(t.data.data() >= begin);
    REQUIRE(t.data.data() + t.data.size() <= begin + file.size());
    std::uint64_t size = bits.at(t.type);
    for (const std::uint64_t n : t.shape) size *= n;
    REQUIRE(t.data.size() * 8 == size);
  }
}

}  // namespace

TEST_CASE("a small file, written by hand") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})";
  const std::string file = file_of(header, 26);
  const auto tensors = parse(file);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].type == "BF16");
  CHECK(tensors[0].shape == std::vector<std::uint64_t>{1});
  CHECK(tensors[0].data.size() == 2);
  CHECK(tensors[1].name == "b");
  CHECK(tensors[1].shape == std::vector<std::uint64_t>{2, 3});
  CHECK(reinterpret_cast<const char*>(tensors[1].data.data()) == file.data() + 8 + header.size() + 2);  // misaligned, which is allowed
  CHECK(tensors[1].data.size() == 24);
}

TEST_CASE("rare but valid files are read") {
  CHECK(parse(file_of("{}")).empty());
  CHECK(parse(file_of("  {}\t\r\n ")).empty());
  CHECK(parse(file_of("{\"__metadata__\":{}}")).empty());
  CHECK(parse(file_of(one("F32", "[2,0]", "[0,0]")))[0].data.empty());
  CHECK(parse(file_of(one("F32", "[0,4611686018427387904]", "[0,0]")))[0].data.empty());
  CHECK(parse(file_of(one("F32", "[]", "[0,4]"), 4))[0].shape.empty());
  CHECK(parse(file_of(one("F4", "[2]", "[0,1]"), 1))[0].data.size() == 1);
  CHECK(parse(file_of(one("F6_E2M3", "[4]", "[0,3]"), 3))[0].data.size() == 3);
  CHECK(parse(file_of(one("C64", "[2]", "[0,16]"), 16))[0].data.size() == 16);
  // An empty tensor may begin at the same byte as another tensor.
  CHECK(parse(file_of("{" + entry("z", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[0]", "[0,0]") + "}", 4)).size() == 2);
  CHECK(parse(file_of("{" + entry("z", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[0]", "[4,4]") + "}", 4)).size() == 2);
  CHECK(parse(file_of(one("U8", "[3]", "[0,3]"), 3))[0].name == "t");
}

TEST_CASE("malformed files: each is refused, and the error says why") {
  const std::string two = entry("a", "F32", "[2]", "[0,8]");
  struct bad {
    std::string file, error;
  };
  const bad all[] = {
      // Size of the header.
      {"", "f: expected a safetensors file of at least 8 bytes, found 0"},
      {"1234567", "f: expected a safetensors file of at least 8 bytes, found 7"},
      {little_endian(0x3c), "f: header: expected at most 0 bytes, found 60"},
      {std::string(5, '<') + "\xff\xff\xff", "f: header: expected at most 0 bytes, found "},
      {little_endian(100'000'001) + std::string(100'000'001, ' '), "f: header: expected at most 100000000 bytes, found 100000001"},
      {little_endian(~std::uint64_t{0}) + "{}", "f: header: expected at most 2 bytes, found 18446744073709551615"},
      {little_endian(0), "f: header: byte 0: expected JSON, found unexpected end of input; expected '[', '{', or a literal"},
      // Header.
      {little_endian(1) + "\xff", "f: header: byte 0: expected JSON, found "},
      {little_endian(1) + "{", "f: header: byte 1: expected JSON, found "},
      {file_of("[]"), "f: header: expected a JSON object, found an array"},
      {file_of("3"), "f: header: expected a JSON object, found 3"},
      {file_of("null"), "f: header: expected a JSON object, found null"},
      {file_of("{} {}"), "f: header: byte 3: expected JSON, found "},
      {file_of("\xef\xbb\xbf{}"), "f: header: byte 0: expected JSON, found a byte order mark"},
      {file_of(std::string("{}\0", 3)), "f: header: byte 2: expected JSON, found a zero byte"},
      {file_of("{\"a\xff\":{}}"), "f: header: byte 3: expected JSON, found invalid string: ill-formed UTF-8 byte"},
      {file_of(std::string(100'000, '[')), "f: header: expected a JSON object, found an array"},
      {file_of(one("F32", std::string(100'000, '['), "[0,0]")),
       "f: header: tensor t: shape: expected an array of whole numbers, found an array"},
      // Keys.
      {file_of("{" + two + "," + two + "}", 8), "f: header: tensor a: data_offsets: expected to begin at 8, found 0"},
      {file_of("{" + entry("a", "F32", "[0]", "[0,0]") + "," + entry("a", "F32", "[0]", "[0,0]") + "}"),
       "f: header: tensor a: expected the key once, found it twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "f: header: __metadata__: expected the key once, found it twice"},
      {file_of(R"({"__metadata__":{"k":"a","k":"b"}})"), "f: header: __metadata__.k: expected the key once, found it twice"},
      {file_of(R"({"__metadata__":{"k":1}})"), "f: header: __metadata__: expected strings only, found 1"},
      {file_of(R"({"__metadata__":{"k":null}})"), "f: header: __metadata__: expected strings only, found null"},
      {file_of(R"({"__metadata__":{"k":{}}})"), "f: header: __metadata__: expected strings only, found an object"},
      {file_of(R"({"__metadata__":{"k":["a"]}})"), "f: header: __metadata__: expected strings only, found an array"},
      {file_of(R"({"__metadata__":"pt"})"), "f: header: __metadata__: expected an object, found \"pt\""},
      {file_of(R"({"t":[1]})"), "f: header: tensor t: expected an object, found an array"},
      {file_of(R"({"t":{}})"), "f: header: tensor t: expected the key \"dtype\", found none"},
      {file_of(R"({"t":{"dtype":"F32","data_offsets":[0,0]}})"), "f: header: tensor t: expected the key \"shape\", found none"},
      {file_of(R"({"t":{"dtype":"F32","shape":[0]}})"), "f: header: tensor t: expected the key \"data_offsets\", found none"},
      {file_of(R"({"t":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}})"),
       "f: header: tensor t: expected the keys dtype, shape and data_offsets only, found \"x\""},
      {file_of(R"({"t":{"dtype":"F32","dtype":"F32","shape":[0],"data_offsets":[0,0]}})"),
       "f: header: tensor t: expected the key \"dtype\" once, found it twice"},
      {file_of(R"({"t":{"dtype":"F32","shape":[0],"shape":[1],"data_offsets":[0,0]}})"),
       "f: header: tensor t: expected the key \"shape\" once, found it twice"},
      // Types.
      {file_of(one("f32", "[1]", "[0,4]"), 4), "f: header: tensor t: dtype: expected a known type, found \"f32\""},
      {file_of(one("Q4_0", "[0]", "[0,0]")), "f: header: tensor t: dtype: expected a known type, found \"Q4_0\""},
      {file_of(R"({"t":{"dtype":["F32"],"shape":[0],"data_offsets":[0,0]}})"),
       "f: header: tensor t: dtype: expected a known type, found an array"},
      {file_of(R"({"t":{"dtype":4,"shape":[0],"data_offsets":[0,0]}})"), "f: header: tensor t: dtype: expected a known type, found 4"},
      {file_of(R"({"t":{"dtype":{"F32":{}},"shape":[0],"data_offsets":[0,0]}})"),
       "f: header: tensor t: dtype: expected a known type, found an object"},
      // Numbers.
      {file_of(one("F32", "[-1]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found -1"},
      {file_of(one("F32", "[1.0]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found 1.0"},
      {file_of(one("F32", "[1e0]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found 1e0"},
      {file_of(one("F32", "[9223372036854775809]", "[0,4]"), 4),
       "f: header: tensor t: shape: expected an array of whole numbers, found 9223372036854775809"},
      {file_of(one("F32", "[18446744073709551616]", "[0,4]"), 4),
       "f: header: tensor t: shape: expected an array of whole numbers, found 18446744073709551616"},
      {file_of(one("F32", "[true]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found true"},
      {file_of(one("F32", "[[1]]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found an array"},
      {file_of(one("F32", "[{}]", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found an object"},
      {file_of(one("F32", "1", "[0,4]"), 4), "f: header: tensor t: shape: expected an array of whole numbers, found 1"},
      {file_of(one("F32", "[1]", "[-4,0]"), 4), "f: header: tensor t: data_offsets: expected two whole numbers, begin and end, found -4"},
      {file_of(one("F32", "[1]", "[0,4,8]"), 4),
       "f: header: tensor t: data_offsets: expected two whole numbers, begin and end, found an array of 3"},
      {file_of(one("F32", "[1]", "[0]"), 4),
       "f: header: tensor t: data_offsets: expected two whole numbers, begin and end, found an array of 1"},
      {file_of(one("F32", "[1]", "{}"), 4),
       "f: header: tensor t: data_offsets: expected two whole numbers, begin and end, found an object"},
      {file_of(one("F32", "[1]", "null"), 4), "f: header: tensor t: data_offsets: expected two whole numbers, begin and end, found null"},
      // Offsets.
      {file_of(one("F32", "[1]", "[4,8]"), 8), "f: header: tensor t: data_offsets: expected to begin at 0, found 4"},
      {file_of("{" + two + "," + entry("b", "F32", "[2]", "[12,20]") + "}", 20),
       "f: header: tensor b: data_offsets: expected to begin at 8, found 12"},
      {file_of("{" + two + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12),
       "f: header: tensor b: data_offsets: expected to begin at 8, found 4"},
      {file_of(one("F32", "[1]", "[0,8]"), 4), "f: header: tensor t: data_offsets: expected an end between 0 and 4, found 8"},
      {file_of("{" + two + "," + entry("b", "F32", "[0]", "[8,4]") + "}", 8),
       "f: header: tensor b: data_offsets: expected an end between 8 and 8, found 4"},
      {file_of(one("F32", "[0]", "[0,9223372036854775808]")),
       "f: header: tensor t: data_offsets: expected an end between 0 and 0, found 9223372036854775808"},
      {file_of(one("F32", "[0]", "[4,4]"), 4), "f: header: tensor t: data_offsets: expected to begin at 0, found 4"},
      // Sizes.
      {file_of(one("F32", "[2]", "[0,4]"), 4), "f: header: tensor t: data_offsets: expected 8 bytes for its shape and type, found 4"},
      {file_of(one("F32", "[0]", "[0,4]"), 4), "f: header: tensor t: data_offsets: expected 0 bytes for its shape and type, found 4"},
      {file_of(one("F32", "[4294967296,4294967296]", "[0,0]")),
       "f: header: tensor t: shape: expected a whole number of bytes below 2^61, found [4294967296, 4294967296] of F32"},
      {file_of(one("F32", "[2,2,9223372036854775808]", "[0,16]"), 16),
       "f: header: tensor t: shape: expected a whole number of bytes below 2^61, found [2, 2, 9223372036854775808] of F32"},
      {file_of(one("F64", "[288230376151711744]", "[0,0]")),
       "f: header: tensor t: shape: expected a whole number of bytes below 2^61, found [288230376151711744] of F64"},
      {file_of(one("F4", "[3]", "[0,1]"), 1), "f: header: tensor t: shape: expected a whole number of bytes below 2^61, found [3] of F4"},
      {file_of(one("F32", "[1]", "[0,4]"), 4) + "extra_bogus_data_for_polyglot_file",
       "f: expected the end after 4 bytes of data, found 38 bytes"},
      {file_of(one("F32", "[1]", "[0,4]"), 2), "f: header: tensor t: data_offsets: expected an end between 0 and 2, found 4"},
      {file_of("{}", 1), "f: expected the end after 0 bytes of data, found 1 bytes"},
  };
  for (const bad& b : all) {
    CAPTURE(b.error);
    const std::string result = said(b.file);
    CHECK(result.starts_with(b.error));
    CHECK(result.size() < 250);
  }
}

TEST_CASE("ten tensors with the same bytes are refused") {
  std::string header = "{";
  for (int i = 0; i < 10; ++i) header += (i ? "," : "") + entry("t" + std::to_string(i), "F32", "[2,2]", "[0,16]");
  CHECK(said(file_of(header + "}", 16)).ends_with(": data_offsets: expected to begin at 16, found 0"));
}

TEST_CASE("50,000 tensors are allowed, and more than a million are refused") {
  const auto file = [](std::size_t n) {
    std::string header = "{";
    for (std::size_t i = 0; i < n; ++i) header.append(i ? "," : "").append(entry(std::to_string(i), "U8", "[0]", "[0,0]"));
    return file_of(header + "}");
  };
  CHECK(parse(file(50'000)).size() == 50'000);
  if (!test_all) return;  // with sanitizers, the next check takes most of a minute
  CHECK(said(file(1'000'001)) == at("f: header", {"1000000"}));
}

TEST_CASE("a real file: tensors are found by name, and every byte of the data belongs to a tensor") {
  const safetensors_file file{mapped_file(pocket_model() / "model.safetensors")};
  const stored_tensor* const norm = file.find("model.norm.weight");
  REQUIRE(norm != nullptr);
  CHECK(norm->shape == std::vector<std::uint64_t>{128});
  CHECK(file.find("model.norm.weigh") == nullptr);
  CHECK(file.find("zzz") == nullptr);
  CHECK(file.find("") == nullptr);
  std::size_t bytes = 0;
  for (const stored_tensor& t : file.tensors()) {
    bytes += t.data.size();
    CHECK(file.find(t.name) == &t);
  }
  std::uint64_t header = 0;
  const std::string whole = read_text(pocket_model() / "model.safetensors");
  std::memcpy(&header, whole.data(), 8);
  CHECK(bytes + 8 + header == whole.size());
}

TEST_CASE("a real file that is cut short is an error") {
  const std::string whole = read_text(pocket_model() / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (std::size_t size = 0; size < 8 + header; size += one_in(37u)) REQUIRE(said(whole.substr(0, size)) != "no error");
  const auto bytes = std::as_bytes(std::span(whole));
  for (std::size_t size = 8 + header; size < whole.size(); size += 4096)
    REQUIRE(error_of([&] { parse_safetensors(bytes.first(size), "f"); }).starts_with("f: header: tensor "));
  CHECK(said(whole) == "no error");
}

TEST_CASE("a real header with any bit flipped gives an error, or the same table with one tensor renamed") {
  std::string whole = read_text(pocket_model() / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  auto by_place = [](std::vector<stored_tensor> tensors) {
    std::ranges::sort(tensors, {}, [](const stored_tensor& t) { return t.data.data(); });
    return tensors;
  };
  const auto genuine = by_place(parse(whole));
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < (8 + header) * 8; bit += one_in(37u)) {
    whole[bit / 8] = static_cast<char>(whole[bit / 8] ^ 1 << bit % 8);
    std::vector<stored_tensor> tensors;
    const std::string result = error_of([&] { tensors = by_place(parse(whole)); });
    whole[bit / 8] = static_cast<char>(whole[bit / 8] ^ 1 << bit % 8);
    if (result != "no error") {
      ++refused;
      continue;
    }
    REQUIRE(tensors.size() == genuine.size());
    std::size_t renamed = 0;
    bool same = true;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const stored_tensor &now = tensors[i], &then = genuine[i];
      renamed += now.name != then.name;
      same = same && now.type == then.type && now.shape == then.shape && now.data.data() == then.data.data() &&
             now.data.size() == then.data.size();
    }
    REQUIRE(same);
    REQUIRE(renamed <= 1);
  }
  CHECK(refused > header * 4 / one_in(37u));
}

TEST_CASE("random edits of a header never give a tensor outside the file") {
  const std::string header = "{" + entry("a", "F32", "[2,3]", "[0,24]") + "," + entry("b", "BF16", "[4]", "[24,32]") + "," +
                             entry("c", "I8", "[8,1]", "[32,40]") + R"(,"__metadata__":{"format":"pt"}})";
  const std::string pieces[] = {
      "0", "1", "8", "24", "32", "[", "]", "{", "}", ",", ":", "\"", "F64", "I64", "-", "e9", "\\u0000", "99999999999999999999", " "};
  std::mt19937 random(1);
  std::size_t accepted = 0;
  for (int run = 0; run < 20'000 / one_in(10); ++run) {
    std::string text = header;
    for (std::size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      text.replace(at, random() % 4, random() % 2 ? pieces[random() % std::size(pieces)] : std::string(1, static_cast<char>(random())));
    }
    const std::string file = file_of(text, 40);
    std::vector<stored_tensor> tensors;
    const std::string result = error_of([&] { tensors = parse(file); });
    CAPTURE(text);
    check_sound(file, tensors);
    accepted += result == "no error";
  }
  CHECK(accepted > 0);  // changed names and metadata are no error
}
