// SPDX-License-Identifier: MIT
// A part of a policy whose type is chosen at run time: the common base of any_scorer, any_schedule, any_selector and any_store.
#pragma once

#include <concepts>
#include <utility>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// The address of tag_of_type<T> identifies the type T without run-time type information.
template <class T>
inline char tag_of_type{};

/// A copyable value that holds one part of a policy. `Calls` is a struct of function pointers that take the part as void*. `Calls::template
/// of<Policy>()` returns the pointers for one type. Assigning a part of the same type allocates no more than the part's own assignment
/// does. Two values are equal if their parts have the same type and are equal by ==. A part without == is equal only to itself. A
/// moved-from value can only be assigned to or destroyed.
template <class Calls>
class erased_part {
 public:
  template <class Policy>
    requires(!std::derived_from<Policy, erased_part>)
  erased_part(Policy chosen) : type_(&type_of<Policy>), policy_(new Policy(std::move(chosen))) {}
  erased_part(const erased_part& other) : type_(other.type_), policy_(other.type_->copy(other.policy_)) {}
  erased_part(erased_part&& other) noexcept : type_(other.type_), policy_(std::exchange(other.policy_, nullptr)) {}
  erased_part& operator=(const erased_part& other) {  // NOLINT(bugprone-unhandled-self-assignment): the part assigns itself to itself
    if (policy_ && type_->tag == other.type_->tag)
      type_->assign(policy_, other.policy_);
    else
      *this = erased_part(other);
    return *this;
  }
  erased_part& operator=(erased_part&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(policy_, other.policy_);
    return *this;
  }
  ~erased_part() {
    if (policy_) type_->destroy(policy_);
  }

  /// The part inside, or null if the part has another type.
  template <class Policy>
  const Policy* target() const noexcept {
    return type_->tag == &tag_of_type<Policy> ? static_cast<const Policy*>(policy_) : nullptr;
  }

  friend bool operator==(const erased_part& a, const erased_part& b) {
    return a.type_->tag == b.type_->tag && a.type_->equal(a.policy_, b.policy_);
  }

 protected:
  const Calls& calls() const noexcept { return type_->calls; }
  void* policy() noexcept { return policy_; }
  const void* policy() const noexcept { return policy_; }

 private:
  struct functions {
    const char* tag;
    void* (*copy)(const void*);
    void (*assign)(void*, const void*);
    bool (*equal)(const void*, const void*);
    void (*destroy)(void*);
    Calls calls;
  };
  template <class Policy>
  static constexpr functions type_of{
      .tag = &tag_of_type<Policy>,
      .copy = [](const void* from) -> void* { return new Policy(*static_cast<const Policy*>(from)); },
      .assign = [](void* to, const void* from) { *static_cast<Policy*>(to) = *static_cast<const Policy*>(from); },
      .equal =
          [](const void* a, const void* b) {
            if constexpr (std::equality_comparable<Policy>)
              return *static_cast<const Policy*>(a) == *static_cast<const Policy*>(b);
            else
              return a == b;
          },
      .destroy = [](void* policy) { delete static_cast<Policy*>(policy); },
      .calls = Calls::template of<Policy>(),
  };

  const functions* type_;
  void* policy_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
