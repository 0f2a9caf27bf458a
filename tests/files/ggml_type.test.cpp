// SPDX-License-Identifier: MIT
#include <lazyprune/files/ggml_type.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <lazyprune/files/gguf.hpp>

#include <files/sha256.hpp>
#include <test_data.hpp>

using lazyprune::ggml_type;
using lazyprune::ggml_type_of;

namespace {

std::vector<float> floats(const ggml_type& type, std::span<const std::byte> bytes) {
  const std::size_t blocks = bytes.size() / type.bytes;
  std::vector<float> values(blocks * type.values);
  type.dequantize(bytes.data(), blocks, values.data());
  return values;
}

/// Computes a value as gguf-py does, but in double. Only the conversion to float rounds.
float rounded_once(double scale, double q, double least) { return static_cast<float>(scale * q + least); }

}  // namespace

TEST_CASE("every type occurs once by number and by name") {
  std::set<std::uint32_t> ids;
  for (const ggml_type& type : lazyprune::detail::ggml_types) {
    CHECK(ids.insert(type.id).second);
    CHECK(ggml_type_of(type.id) == &type);
    CHECK(ggml_type_of(type.name) == &type);
  }
  for (const std::uint32_t gone : {4u, 5u, 31u, 33u, 36u, 38u, 42u, 1000u}) CHECK(ggml_type_of(gone) == nullptr);
  CHECK(ggml_type_of("Q4_2") == nullptr);
  CHECK((ggml_type_of("IQ3_S")->dequantize == nullptr));
}

TEST_CASE("SHA-256 gives the hashes of the standard's examples") {
  const auto hash = [](const std::string& text) { return lazyprune_test::sha256(std::as_bytes(std::span(text))); };
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("blocks computed by hand") {
  // The scale is 0.5 (f16 0x3800), the minimum -2 (0xc000), and the bytes are 0x10 0x32 0x54 ...
  std::string nibbles;
  for (int j = 0; j < 16; ++j) nibbles += static_cast<char>((2 * j + 1) % 16 << 4 | 2 * j % 16);
  const auto read = [](std::string_view type, const std::string& bytes) {
    return floats(*ggml_type_of(type), std::as_bytes(std::span(bytes)));
  };
  const std::string half("\x00\x38", 2), minus_two("\x00\xc0", 2);
  const auto q4_0 = read("Q4_0", half + nibbles), q4_1 = read("Q4_1", half + minus_two + nibbles);
  const auto iq4 = read("IQ4_NL", half + nibbles), mxfp4 = read("MXFP4", "\x80" + nibbles);
  const auto q5_1 = read("Q5_1", half + minus_two + std::string("\x01\x00\x00\x80", 4) + nibbles);
  CHECK(q4_0[0] == -4.0f);
  CHECK(q4_0[16] == -3.5f);
  CHECK(q4_1[1] == -1.0f);
  CHECK(q4_1[31] == 5.5f);
  CHECK(iq4[0] == -63.5f);
  CHECK(iq4[16] == -52.0f);
  CHECK(mxfp4[7 + 16] == -12.0f);  // 2^(0x80 - 127) / 2 = 1
  CHECK(q5_1[0] == 6.0f);          // 0.5 * 16 - 2
  CHECK(q5_1[1] == -1.0f);
  CHECK(q5_1[31] == 13.5f);  // 0.5 * 31 - 2
}

TEST_CASE("the blocks of a format have the numbers that dequantize gives") {
  std::mt19937 random(11);
  for (const ggml_type& type : lazyprune::detail::ggml_types) {
    CHECK((type.format != nullptr) == (type.read_blocks != nullptr));
    if (!type.format) continue;
    CAPTURE(type.name);
    const lazyprune::block_format& format = *type.format;
    REQUIRE(format.inputs == type.values);
    REQUIRE((!format.has_least || format.offset == 0));
    constexpr std::size_t blocks = 3;
    std::vector<std::byte> bytes(blocks * type.bytes);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random() % 120);  // bytes below 120 keep each f16 scale finite
    const auto values = floats(type, bytes);
    lazyprune::quantized_block read[blocks];
    type.read_blocks(bytes.data(), blocks, read);
    std::size_t wrong = 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      const lazyprune::quantized_block& parts = read[b];
      const double scale = lazyprune::float_of_f16(parts.scale), least = lazyprune::float_of_f16(parts.least);
      for (std::size_t i = 0; i < format.inputs; ++i) {
        const std::size_t g = i / format.group;
        const double by = format.groups() > 1 ? parts.scales[g] : 1, less = format.groups() > 1 ? parts.leasts[g] : 1;
        CHECK(parts.codes[i] < 1 << format.bits);
        wrong += values[b * format.inputs + i] !=
                 rounded_once(scale * by, format.meant(parts.codes[i]) - format.offset, format.has_least ? -least * less : 0.0);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("with any scale, products are exact, so fusing them with sums changes nothing") {
  std::mt19937 random(3);
  const ggml_type &q4_1 = *ggml_type_of("Q4_1"), &q4_k = *ggml_type_of("Q4_K");
  std::vector<std::byte> block(144);
  for (int run = 0; run < 4000 / one_in(10); ++run) {
    for (std::byte& b : block) b = static_cast<std::byte>(random());
    const auto half = [&](std::size_t at) {
      std::uint16_t bits;
      std::memcpy(&bits, block.data() + at, 2);
      return static_cast<double>(lazyprune::float_of_f16(bits));
    };
    const double d = half(0), m = half(2);
    if (!(std::abs(d) < 1e6 && std::abs(m) < 1e6)) continue;
    const auto byte = [&](std::size_t i) { return std::to_integer<int>(block[i]); };
    const auto simple = floats(q4_1, std::span(block).first(20)), packed = floats(q4_k, block);
    for (std::size_t j = 0; j < 16; ++j) REQUIRE(simple[16 + j] == rounded_once(d, byte(4 + j) >> 4, m));
    for (std::size_t j = 0; j < 32; ++j) {
      REQUIRE(packed[j] == rounded_once(d * (byte(4) & 63), byte(16 + j) & 15, -m * (byte(8) & 63)));
      REQUIRE(packed[160 + j] == rounded_once(d * ((byte(4 + 9) & 15) | (byte(4 + 1) >> 6) << 4), byte(16 + 64 + j) >> 4,
                                              -m * (byte(4 + 9) >> 4 | (byte(4 + 5) >> 6) << 4)));
    }
  }
}

TEST_CASE("every value of every tensor equals gguf-py's" NEEDS("data")) {
  const auto folder = test_data("gguf");
  if (folder.empty()) return;
  std::set<std::string_view> compared;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    const lazyprune::gguf_file file{lazyprune::mapped_file(entry.path())};
    const auto expected = nlohmann::json::parse(read_text(folder / (entry.path().stem().string() + ".expected.json"))).at("tensors");
    REQUIRE(expected.size() == file.tensors().size());
    for (const lazyprune::stored_tensor& t : file.tensors()) {
      CAPTURE(file.name());
      CAPTURE(t.name);
      const auto& of = expected.at(t.name);
      REQUIRE(of.at("type") == t.type);
      const ggml_type& type = *ggml_type_of(t.type);
      if (!type.dequantize) {
        CHECK(t.type == "IQ3_S");  // the only unsupported type in these files
        continue;
      }
      const std::vector<float> values = floats(type, t.data);
      CHECK(lazyprune_test::sha256(std::as_bytes(std::span(values))) == of.at("sha256"));
      compared.insert(type.name);
    }
  }
  for (const ggml_type& type : lazyprune::detail::ggml_types) {
    CAPTURE(type.name);
    const bool is_read = type.dequantize != nullptr;
    CHECK(compared.contains(type.name) == is_read);
  }
}
