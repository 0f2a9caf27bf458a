// SPDX-License-Identifier: MIT
// The weights of a checkpoint as a source for load_model.
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

/// The shapes of a checkpoint's tensors without their numbers. load_model first asks an object of this class for all tensors. So missing
/// and wrong tensors are found before any tensor is widened and packed.
class checkpoint_shapes {
 public:
  /// The checkpoint must outlive this object.
  explicit checkpoint_shapes(const checkpoint& files) : files_(files) {}

  bool contains(std::string_view name) const { return files_.contains(name); }

  /// Returns a float tensor of this shape: a vector of zeros, or a matrix without data. Throws `error` if the file has no such tensor, or
  /// if the file's tensor has another shape or an unsupported type.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    files_.of_shape(name, rows, columns);
    asked_.emplace(name);
    if (rows > 1) return {dtype::f32, rows, columns, nullptr};
    zeros_.emplace_back(columns);
    return {dtype::f32, rows, columns, reinterpret_cast<const std::byte*>(zeros_.back().data())};
  }

  /// The names that were passed to `get`.
  const std::set<std::string, std::less<>>& asked() const { return asked_; }

 private:
  const checkpoint& files_;
  // Mutable, because load_model calls only const functions.
  mutable std::vector<std::vector<float>> zeros_;
  mutable std::set<std::string, std::less<>> asked_;
};

/// A checkpoint's tensors as a source for load_model. Tensors of plain types (F32, F16, BF16) are used as they are in the file, unless the
/// file interleaves their rows. Matrices that are quantized or interleaved come with a reader that converts them.
class checkpoint_weights {
 public:
  /// Quantized matrices are widened to `widened`, which is bf16 or f32. Quantized vectors are widened to f32. If `keeps` is true, a backend
  /// may keep the blocks of quantized matrices instead. The checkpoint must outlive this object.
  explicit checkpoint_weights(const checkpoint& files, dtype widened = dtype::bf16, bool keeps = false)
      : files_(files), widened_(widened), keeps_(keeps) {}

  bool contains(std::string_view name) const { return files_.contains(name); }

  /// Returns the tensor, which is valid while this object and the checkpoint exist. Throws `error` if the tensor is missing, or has another
  /// shape or an unsupported type. If `rows` is 1, the tensor may also be a vector. If the file is mapped, this call starts to read the
  /// tensor into memory. A matrix's pages are released when the last copy of its pointer `held` is gone.
  tensor get(std::string_view name, std::size_t rows, std::size_t columns) const {
    const placed_tensor& placed = files_.of_shape(name, rows, columns);
    const stored_tensor& t = *placed.stored;
    const auto plain = checkpoint::plain_type(t.type);
    const std::size_t head_dim = files_.interleaves(name) ? files_.config().head_dim : 0;
    prefetch(placed);

    tensor result{plain.value_or(rows == 1 ? dtype::f32 : widened_), rows, columns, t.data.data()};
    if (rows > 1) result.held = {t.data.data(), [file = placed.file, read = t.data](const void*) { file->release(read); }};
    if (plain && head_dim == 0) return result;
    const ggml_type& type = *ggml_type_of(t.type);
    if (rows > 1)
      result.reader = &readers_.try_emplace({type.id, head_dim}, type, head_dim, keeps_).first->second;
    else
      result.data = numbers_of(result, type, head_dim);
    return result;
  }

  /// Returns the tensor's file and its offset in that file. load_model loads the layers in the order of these pairs. A missing tensor comes
  /// first.
  std::pair<std::string_view, std::size_t> place(std::string_view name) const {
    const placed_tensor* const t = files_.find(name);
    if (!t) return {};
    return {t->file->name(), static_cast<std::size_t>(t->stored->data.data() - t->file->bytes().data())};
  }

 private:
  /// Returns the numbers of a vector, in its type. In the file the vector must consist of whole blocks of `type`. If `head_dim` is above 0,
  /// also undoes the interleaving of heads.
  const std::byte* numbers_of(const tensor& vector, const ggml_type& type, std::size_t head_dim) const {
    const std::size_t unit = size_of(vector.type);
    std::vector<std::byte> in_file(vector.bytes()), numbers(vector.bytes());
    ggml_rows(type).read(vector, 0, 0, vector.columns, in_file.data());
    for (std::size_t i = 0; i < vector.columns; ++i)
      std::memcpy(numbers.data() + i * unit, in_file.data() + (head_dim > 0 ? detail::interleaved_row(i, head_dim) : i) * unit, unit);
    return vectors_.emplace_back(std::move(numbers)).data();
  }

  /// Starts to read the tensor and the 64 MiB after it, since most files store the layers in order. Does not ask for the same bytes twice.
  void prefetch(const placed_tensor& t) const {
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
  bool keeps_;
  // Mutable, because load_model calls only const functions.
  mutable std::map<std::pair<std::uint32_t, std::size_t>, ggml_rows> readers_;  // by type and head_dim
  mutable std::vector<std::vector<std::byte>> vectors_;
  mutable std::map<const mapped_file*, std::pair<std::size_t, std::size_t>> asked_;  // by file: the range [first, end) last asked for
  mutable read_ahead ahead_;
};

static_assert(tensor_source<checkpoint_weights> && tensor_source<checkpoint_shapes>);

/// Packs a checkpoint's weights. If `options.as` has no value, quantized weights count as bf16, and the backend may keep their blocks.
/// Throws `error` if a weight is missing, has another shape than the config says, or does not belong to the model.
template <tensor_backend Backend>
model<Backend> load_model(Backend& backend, const checkpoint& files, const load_options& options = {}) {
  const checkpoint_shapes shapes(files);
  ask_for_weights(files.config(), shapes);
  files.refuse_all_but(shapes.asked());
  return load_model(backend, files.config(), checkpoint_weights(files, options.as.value_or(dtype::bf16), !options.as), options);
}

}  // namespace v0
}  // namespace lazyprune
