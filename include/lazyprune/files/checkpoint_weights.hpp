// SPDX-License-Identifier: MIT
// The weights of a checkpoint, as load_model asks for them: those of plain types as they lie in the file, quantized ones through a reader
// that widens them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lazyprune/backend/tensor.hpp>
#include <lazyprune/backend/tensor_backend.hpp>
#include <lazyprune/files/checkpoint.hpp>
#include <lazyprune/files/ggml_rows.hpp>
#include <lazyprune/files/ggml_type.hpp>
#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/read_ahead.hpp>
#include <lazyprune/files/stored_tensor.hpp>
#include <lazyprune/model/model.hpp>
#include <lazyprune/model/weights.hpp>

namespace lazyprune {
inline namespace v0 {

/// The shapes of a checkpoint's tensors, and no numbers: to find what is missing or wrong before anything is widened and packed.
class checkpoint_shapes {
 public:
  /// The checkpoint must outlive it.
  explicit checkpoint_shapes(const checkpoint& files) : files_(files) {}

  bool contains(std::string_view name) const { return files_.contains(name); }

  /// A tensor of this shape, of float: a vector of zeros, a matrix without data. Throws `error` where the file has another shape, or no
  /// such tensor.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    files_.of_shape(name, rows, columns);
    asked_.emplace(name);
    if (rows > 1) return {dtype::f32, rows, columns, nullptr};
    zeros_.emplace_back(columns);
    return {dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(zeros_.back().data())};
  }

  /// The names that `get` was called with.
  const std::set<std::string, std::less<>>& asked() const { return asked_; }

 private:
  const checkpoint& files_;
  // A source is asked through const functions.
  mutable std::vector<std::vector<float>> zeros_;
  mutable std::set<std::string, std::less<>> asked_;
};

/// A checkpoint's tensors, as load_model asks for them: those of plain types as they lie in the file, those of quantized types with a
/// reader that widens them.
class checkpoint_weights {
 public:
  /// `widened`: what quantized matrices become, bf16 or f32; vectors become f32. The checkpoint must outlive it.
  explicit checkpoint_weights(const checkpoint& files, dtype widened = dtype::bf16) : files_(files), widened_(widened) {}

  bool contains(std::string_view name) const { return files_.contains(name); }

  /// The tensor, which must have this shape; with one row it may also be a vector. Throws `error` otherwise. It is about to be read, so
  /// where it is mapped it begins to come into memory, and when the last copy of a matrix goes, it does not stand there any more. It is
  /// valid as long as this object and the checkpoint are.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const placed_tensor& placed = files_.of_shape(name, rows, columns);
    const stored_tensor& t = *placed.stored;
    const auto plain = checkpoint::plain_type(t.type);
    const std::size_t head_dim = files_.interleaves(name) ? files_.config().head_dim : 0;
    come_into_memory(placed);

    tensor result{plain.value_or(rows == 1 ? dtype::f32 : widened_), rows, columns, t.data.data()};
    if (rows > 1) result.held = {t.data.data(), [file = placed.file, read = t.data](const void*) { file->release(read); }};
    if (plain && head_dim == 0) return result;
    const ggml_type& type = *ggml_type_of(t.type);
    if (rows > 1)
      result.reader = &readers_.try_emplace({type.id, head_dim}, type, head_dim).first->second;
    else
      result.data = numbers_of(result, type, head_dim);
    return result;
  }

  /// The file that has the tensor, and where in it; of one that is missing: before all others.
  std::pair<std::string_view, std::size_t> place(std::string_view name) const {
    const placed_tensor* const t = files_.find(name);
    if (!t) return {};
    return {t->file->name(), static_cast<std::size_t>(t->stored->data.data() - t->file->bytes().data())};
  }

 private:
  /// The numbers of a vector of whole blocks, in their own order.
  const std::byte* numbers_of(const tensor& vector, const ggml_type& type, std::size_t head_dim) const {
    const std::size_t unit = size_of(vector.type);
    std::vector<std::byte> in_file(vector.bytes()), numbers(vector.bytes());
    ggml_rows(type).read(vector, 0, 0, vector.columns, in_file.data());
    for (std::size_t i = 0; i < vector.columns; ++i)
      std::memcpy(numbers.data() + i * unit, in_file.data() + (head_dim > 0 ? detail::interleaved_row(i, head_dim) : i) * unit, unit);
    return vectors_.emplace_back(std::move(numbers)).data();
  }

  /// The tensor's bytes and those behind it come into memory while it is packed: most files have the order of the layers. What was asked
  /// for is not asked for again.
  void come_into_memory(const placed_tensor& t) const {
    if (!t.file->mapped()) return;
    constexpr std::size_t ahead = std::size_t{64} << 20;
    const std::span<const std::byte> file = t.file->bytes(), own = t.stored->data;
    const auto first = static_cast<std::size_t>(own.data() - file.data());
    const std::size_t end = std::min(first + own.size() + ahead, file.size());
    auto& [begin, asked] = asked_.try_emplace(t.file, first, first).first->second;
    if (first < begin || first > asked) begin = asked = first;
    if (end <= asked) return;
    ahead_.ask(*t.file, file.subspan(asked, end - asked));
    asked = end;
  }

  const checkpoint& files_;
  dtype widened_;
  // A source is asked through const functions.
  mutable std::map<std::pair<std::uint32_t, std::size_t>, ggml_rows> readers_;  // by type and head_dim
  mutable std::vector<std::vector<std::byte>> vectors_;
  mutable std::map<const mapped_file*, std::pair<std::size_t, std::size_t>> asked_;  // from which byte to which they are read ahead
  mutable read_ahead ahead_;
};

static_assert(tensor_source<checkpoint_weights> && tensor_source<checkpoint_shapes>);

/// Packs a checkpoint's weights; quantized ones are widened to bf16 where `options.as` does not say. Throws `error` where one is missing,
/// has another shape than the config says, or is not of the model.
template <tensor_backend Backend>
model<Backend> load_model(Backend& backend, const checkpoint& files, const load_options& options = {}) {
  const checkpoint_shapes shapes(files);
  ask_for_weights(files.config(), shapes);
  files.refuse_all_but(shapes.asked());
  return load_model(backend, files.config(), checkpoint_weights(files, options.as.value_or(dtype::bf16)), options);
}

}  // namespace v0
}  // namespace lazyprune
