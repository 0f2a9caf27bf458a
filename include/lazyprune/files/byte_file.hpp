// SPDX-License-Identifier: MIT
// Files of saved sequences and prefix caches.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/descriptor.hpp>
#include <lazyprune/files/output_file.hpp>
#include <lazyprune/model/byte_stream.hpp>

namespace lazyprune {
inline namespace v0 {

/// Calls write(byte_writer&) and stores the bytes in a file. The file gets its name when it is complete. If anything throws, an older file
/// stays. Only this user may read a new file; a replaced file keeps its permissions. Throws `error` of code io if the file cannot be
/// written.
template <class Write>
void write_byte_file(const std::filesystem::path& path, const Write& write) {
  output_file file(path, 0600);  // users' texts are in it
  byte_writer to([&](std::string_view bytes) { file.write(bytes); });
  write(to);
  file.commit();
}

/// Calls read(byte_reader&) with the bytes of a file. Throws `error` if the file cannot be read, or the exception that `read` throws.
template <class Read>
void read_byte_file(const std::filesystem::path& path, const Read& read) {
  const std::string name = path.string();
  const file_descriptor file = open_file(path, O_RDONLY, name, "a file that can be read");
  std::vector<char> buffer(std::size_t{1} << 16);
  std::span<const char> unread{};  // bytes of the buffer
  byte_reader from(
      [&](std::span<char> to) {
        std::size_t filled = 0;
        while (filled < to.size()) {
          if (unread.empty()) {
            const auto got = repeat_if_interrupted([&] { return ::read(file.get(), buffer.data(), buffer.size()); });
            if (got < 0) throw error(name, "", "to read it", reason_of(errno), error_code::io);
            if (got == 0) break;
            unread = std::span(buffer).first(static_cast<std::size_t>(got));
          }
          const std::size_t count = std::min(unread.size(), to.size() - filled);
          std::copy_n(unread.data(), count, to.data() + filled);
          unread = unread.subspan(count);
          filled += count;
        }
        return filled;
      },
      name);
  read(from);
}

}  // namespace v0
}  // namespace lazyprune
