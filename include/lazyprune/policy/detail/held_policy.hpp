// SPDX-License-Identifier: MIT
// What the erased policies share (any_scorer, any_schedule, any_selector, any_store): a value behind an interface, copied with its holder.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace lazyprune {
inline namespace v0 {
namespace detail {

/// Its address stands for the type, without run-time type information.
template <class T>
inline char tag_of_type{};

/// The interface of a kind of policy inherits it.
template <class Interface>
class policy_interface {
 public:
  virtual ~policy_interface() = default;
  virtual std::unique_ptr<Interface> clone() const = 0;
  virtual void assign(const Interface& other) = 0;        // of the same type
  virtual bool equals(const Interface& other) const = 0;  // of the same type
  virtual const void* type() const noexcept = 0;
  virtual const void* address() const noexcept = 0;
};

/// Holds one policy; `Derived` implements the interface's own functions with it.
template <class Interface, class Derived, class Policy>
class policy_holder : public Interface {
 public:
  explicit policy_holder(Policy chosen) : policy(std::move(chosen)) {}

  std::unique_ptr<Interface> clone() const override { return std::make_unique<Derived>(policy); }
  void assign(const Interface& other) override { policy = *static_cast<const Policy*>(other.address()); }
  bool equals(const Interface& other) const override {
    if constexpr (std::equality_comparable<Policy>)
      return policy == *static_cast<const Policy*>(other.address());
    else
      return this == &other;
  }
  const void* type() const noexcept override { return &tag_of_type<Policy>; }
  const void* address() const noexcept override { return &policy; }

  Policy policy;
};

/// The value. Assigning one of the same type allocates no more than the policy's own assignment does. Two are equal if they are of one type
/// and its == says so; without one a policy equals none but itself. One that was moved from can be assigned to, and no more.
template <class Interface>
class held_policy {
 public:
  explicit held_policy(std::unique_ptr<Interface> held) : held_(std::move(held)) {}
  held_policy(const held_policy& other) : held_(other.held_->clone()) {}
  held_policy(held_policy&&) noexcept = default;
  held_policy& operator=(const held_policy& other) {
    if (held_ && held_->type() == other.held_->type())
      held_->assign(*other.held_);
    else
      held_ = other.held_->clone();
    return *this;
  }
  held_policy& operator=(held_policy&&) noexcept = default;
  ~held_policy() = default;

  Interface& operator*() noexcept { return *held_; }
  const Interface& operator*() const noexcept { return *held_; }

  friend bool operator==(const held_policy& a, const held_policy& b) {
    return a.held_->type() == b.held_->type() && a.held_->equals(*b.held_);
  }

  template <class Policy>
  const Policy* target() const noexcept {
    return held_->type() == &tag_of_type<Policy> ? static_cast<const Policy*>(held_->address()) : nullptr;
  }

 private:
  std::unique_ptr<Interface> held_;
};

}  // namespace detail
}  // namespace v0
}  // namespace lazyprune
