// SPDX-License-Identifier: MIT
// A policy of a type that was chosen at run time: the one erasure that any_scorer, any_schedule, any_selector and any_store are made of.
#pragma once

#include <concepts>
#include <utility>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Its address stands for the type, without run-time type information.
template <class T>
inline char tag_of_type{};

/// A copyable value with the calls of its kind. `Calls` is a struct of function pointers that take the policy as void*;
/// `Calls::template of<Policy>()` returns those of one type. Assigning a policy of the same type allocates no more than the policy's own
/// assignment does. Two are equal if they are of one type and its == says so; without == a policy equals only itself. A moved-from one can
/// only be assigned to.
template <class Calls>
class erased_policy {
 public:
  template <class Policy>
    requires(!std::derived_from<Policy, erased_policy>)
  erased_policy(Policy chosen) : type_(&type_of<Policy>), policy_(new Policy(std::move(chosen))) {}
  erased_policy(const erased_policy& other) : type_(other.type_), policy_(other.type_->copy(other.policy_)) {}
  erased_policy(erased_policy&& other) noexcept : type_(other.type_), policy_(std::exchange(other.policy_, nullptr)) {}
  erased_policy& operator=(const erased_policy& other) {
    if (policy_ && type_->tag == other.type_->tag)
      type_->assign(policy_, other.policy_);
    else
      *this = erased_policy(other);
    return *this;
  }
  erased_policy& operator=(erased_policy&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(policy_, other.policy_);
    return *this;
  }
  ~erased_policy() {
    if (policy_) type_->destroy(policy_);
  }

  /// The policy in it; null if it is of another type.
  template <class Policy>
  const Policy* target() const noexcept {
    return type_->tag == &tag_of_type<Policy> ? static_cast<const Policy*>(policy_) : nullptr;
  }

  friend bool operator==(const erased_policy& a, const erased_policy& b) {
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
