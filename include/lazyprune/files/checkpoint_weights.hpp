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
    const byte_source* const source = prefetch(placed);

    tensor result{plain.value_or(rows == 1 ? dtype::f32 : widened_), rows, columns, t.data.data()};
    if (rows > 1) {
      result.source = source;
      result.held = {t.data.data(), [file = placed.file, read = t.data](const void*) { file->release(read); }};
    }
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
  /// A mapped file, and what is known of its pages.
  struct source_file final : byte_source {
    explicit source_file(const mapped_file& all) : file(all) {}
    bool copy(const std::byte* from, std::size_t bytes, std::byte* to) const noexcept override { return file.copy({from, bytes}, to); }

    const mapped_file& file;
    std::size_t begin = 0, end = 0;  // the range that was last asked for
    bool in_memory = true;           // whether all bytes that were asked for so far were in memory before
  };

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

  /// Asks for the tensor and the 64 MiB after it, since most files store the layers in order. Does not ask for the same bytes twice.
  /// Returns the source that copies the tensor's bytes, as long as all bytes are in memory already. From the first byte that is not, starts
  /// to read what is asked for, and returns null. A copy would then take longer: the pages that were read ahead are mapped.
  const byte_source* prefetch(const placed_tensor& t) const {
    if (!t.file->mapped()) return nullptr;
    constexpr std::size_t ahead = std::size_t{64} << 20;
    const std::span<const std::byte> file = t.file->bytes(), own = t.stored->data;
    const auto first = static_cast<std::size_t>(own.data() - file.data());
    const std::size_t end = std::min(first + own.size() + ahead, file.size());
    source_file& source = sources_.try_emplace(t.file, *t.file).first->second;
    if (first < source.begin || first > source.end) source.begin = source.end = first;
    if (end > source.end) {
      const std::span<const std::byte> asked = file.subspan(source.end, end - source.end);
      source.end = end;
      source.in_memory = source.in_memory && t.file->can_copy(asked);
      if (!source.in_memory) ahead_.ask(*t.file, asked);
    }
    return source.in_memory ? &source : nullptr;
  }

  const checkpoint& files_;
  dtype widened_;
  bool keeps_;
  // Mutable, because load_model calls only const functions.
  mutable std::map<std::pair<std::uint32_t, std::size_t>, ggml_rows> readers_;  // by type and head_dim
  mutable std::vector<std::vector<std::byte>> vectors_;
  mutable std::map<const mapped_file*, source_file> sources_;
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
