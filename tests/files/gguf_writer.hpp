// SPDX-License-Identifier: MIT
// Makes GGUF files for tests. The files may be malformed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace lazyprune_test {

template <class T>
std::string bytes_of_number(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string gguf_string(std::string_view text) { return bytes_of_number<std::uint64_t>(text.size()) + std::string(text); }

inline std::string gguf_key(std::string_view key, std::uint32_t type, const std::string& value) {
  return gguf_string(key) + bytes_of_number(type) + value;
}
inline std::string gguf_key(std::string_view key, std::uint32_t value) { return gguf_key(key, 4, bytes_of_number(value)); }
inline std::string gguf_key(std::string_view key, float value) { return gguf_key(key, 6, bytes_of_number(value)); }
inline std::string gguf_key(std::string_view key, bool value) { return gguf_key(key, 7, std::string(1, value ? '\1' : '\0')); }
inline std::string gguf_key(std::string_view key, const char* text) { return gguf_key(key, 8, gguf_string(text)); }
inline std::string gguf_array(std::uint32_t type, std::uint64_t size, const std::string& values) {
  return bytes_of_number(type) + bytes_of_number(size) + values;
}

/// Returns a tensor's entry in the table. `dimensions`: the length of a row comes first.
inline std::string gguf_info(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                             std::uint64_t offset) {
  std::string info = gguf_string(name) + bytes_of_number(static_cast<std::uint32_t>(dimensions.size()));
  for (const std::uint64_t n : dimensions) info += bytes_of_number(n);
  return info + bytes_of_number(type) + bytes_of_number(offset);
}

inline std::string gguf_head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
  return "GGUF" + bytes_of_number(version) + bytes_of_number(tensors) + bytes_of_number(keys);
}

/// Returns a file with these keys, table entries and data.
inline std::string gguf_bytes(const std::vector<std::string>& keys, const std::vector<std::string>& infos, const std::string& data = {},
                              std::size_t alignment = 32) {
  std::string file = gguf_head(infos.size(), keys.size());
  for (const std::string& part : keys) file += part;
  for (const std::string& part : infos) file += part;
  if (!data.empty()) file.resize((file.size() + alignment - 1) / alignment * alignment);
  return file + data;
}

struct gguf_tensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // the length of a row comes first
  std::uint32_t type;
  std::string data;
};

/// Returns a valid file with these keys and tensors.
inline std::string gguf_model(const std::vector<std::string>& keys, const std::vector<gguf_tensor>& tensors) {
  std::vector<std::string> infos;
  std::string data;
  for (const gguf_tensor& t : tensors) {
    infos.push_back(gguf_info(t.name, t.dimensions, t.type, data.size()));
    data += t.data;
    data.resize((data.size() + 31) / 32 * 32);
  }
  return gguf_bytes(keys, infos, data);
}

}  // namespace lazyprune_test
