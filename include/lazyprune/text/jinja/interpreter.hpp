// SPDX-License-Identifier: MIT
// Renders a template's syntax tree. The interpreter owns all scopes, macros, loops and namespaces until the rendering ends, because values
// point to them. These objects do not own each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/text/jinja/arguments.hpp>
#include <lazyprune/text/jinja/budget.hpp>
#include <lazyprune/text/jinja/clock.hpp>
#include <lazyprune/text/jinja/filters.hpp>
#include <lazyprune/text/jinja/formatting.hpp>
#include <lazyprune/text/jinja/members.hpp>
#include <lazyprune/text/jinja/methods.hpp>
#include <lazyprune/text/jinja/operations.hpp>
#include <lazyprune/text/jinja/printing.hpp>
#include <lazyprune/text/jinja/syntax.hpp>
#include <lazyprune/text/jinja/tests.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

/// The names of a scope and their values. `outer` is the enclosing scope, or null. The bytes of the names outlive the rendering.
struct scope {
  const scope* outer = nullptr;
  std::vector<std::pair<std::string_view, value>> names{};

  const value* find(std::string_view name, budget& work) const {
    for (const scope* s = this; s; s = s->outer) {
      work.step(s->names.size() / 8 + 1);
      for (const auto& [known, item] : s->names)
        if (known == name) return &item;
    }
    return nullptr;
  }
  void set(std::string_view name, value item, budget& work) {
    work.step(names.size() / 8 + 1);
    for (auto& [known, old] : names)
      if (known == name) {
        old = std::move(item);
        return;
      }
    names.emplace_back(name, std::move(item));
  }
};

struct macro {
  const macro_definition* definition;
  const scope* home;
};

/// Thrown by raise_exception: the template refuses the chat with this message.
struct raised_exception {
  std::string message;
};

class interpreter {
 public:
  /// `variables`, `now` and `work` must outlive this object.
  interpreter(const scope& variables, const std::function<std::tm()>& now, budget& work) : work_(work), now_(now) {
    scopes_.push_back({&variables});
    scope_ = &scopes_.back();
  }
  interpreter(const interpreter&) = delete;
  interpreter& operator=(const interpreter&) = delete;
  ~interpreter() {  // clears the members while the namespaces, macros and loops that they point to still exist
    for (name_space& space : spaces_) space.members.clear();
  }

  /// Renders the template. Throws `error` without file and place, or `raised_exception`. After either exception, `where()`
  /// returns the place in the template.
  tagged_text render(const block& all) {
    run(all);
    return std::move(*out_);
  }
  position where() const { return at_; }

 private:
  enum class flow : std::uint8_t { on, broke, continued };

  // Statements

  flow run(const block& statements) {
    const budget::level deeper(work_);
    for (const statement& s : statements) {
      work_.step();
      at_ = s.at;
      const flow next = std::visit([&](const auto& form) { return run(form); }, s.form);
      if (next != flow::on) return next;
    }
    return flow::on;
  }

  void put(const tagged_text& text) {
    work_.write(text.size());
    out_->append(text);
  }

  flow run(const plain_text& s) {
    put(*s.text.text());
    return flow::on;
  }
  flow run(const output& s) {
    put(*text_of(eval(s.what), work_));
    return flow::on;
  }
  flow run(const branches& s) {
    for (const auto& [condition, body] : s.cases)
      if (truth(eval(condition))) return run(body);
    return run(s.otherwise);
  }
  flow run(const break_loop&) { return flow::broke; }
  flow run(const continue_loop&) { return flow::continued; }

  flow run(const for_loop& s) {
    const position at = at_;
    const value several = eval(s.items);
    at_ = at;
    std::vector<value> items = items_of(several, work_);
    if (s.condition) {
      std::vector<value> kept;
      for (value& item : items) {
        const inner_scope inside(*this);
        assign(s.target, item);
        if (truth(eval(s.condition))) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) {
      const inner_scope inside(*this);
      return run(s.otherwise);
    }
    work_.write(sizeof(loop_state));
    loop_state& loop = loops_.emplace_back();
    loop.items = std::move(items);
    for (; loop.index < loop.items.size(); ++loop.index) {
      const inner_scope inside(*this);
      scope_->set("loop", static_cast<const loop_state*>(&loop), work_);
      at_ = at;
      assign(s.target, loop.items[loop.index]);
      if (run(s.body) == flow::broke) break;
    }
    if (loop.index == loop.items.size()) --loop.index;  // after the loop, `loop` stays at the last item
    return flow::on;
  }

  flow run(const assignment& s) {
    const position at = at_;
    value v = eval(s.what);
    at_ = at;
    assign(s.target, v);
    return flow::on;
  }
  flow run(const block_assignment& s) {
    const position at = at_;
    value v = captured(s.body);
    if (s.filters) v = eval(s.filters, &v);
    at_ = at;
    assign(s.target, v);
    return flow::on;
  }
  flow run(const macro_definition& s) {
    scope_->set(s.name, define(s), work_);
    return flow::on;
  }
  flow run(const call_block& s) {
    const position at = at_;
    const value caller = define(s.caller);
    const value result = eval(std::get<call>(s.what->form), at, &caller);
    put(*text_of(result, work_));
    return flow::on;
  }
  flow run(const filter_block& s) {
    const value body = captured(s.body);
    put(*text_of(eval(s.filters, &body), work_));
    return flow::on;
  }
  flow run(const with_block& s) {
    std::vector<value> values;
    for (const auto& [target, what] : s.names) values.push_back(eval(what));
    const inner_scope inside(*this);
    for (std::size_t i = 0; i < values.size(); ++i) assign(s.names[i].first, values[i]);
    return run(s.body);
  }

  /// Opens a scope for the lifetime of this object. The new scope lies within the current one, or within `outer`.
  class inner_scope {
   public:
    explicit inner_scope(interpreter& owner) : inner_scope(owner, owner.scope_) {}
    inner_scope(interpreter& owner, const scope* outer) : owner_(owner), before_(owner.scope_) {
      owner.work_.write(sizeof(scope));
      owner.scopes_.push_back({outer});
      owner.scope_ = &owner.scopes_.back();
    }
    inner_scope(const inner_scope&) = delete;
    inner_scope& operator=(const inner_scope&) = delete;
    ~inner_scope() { owner_.scope_ = before_; }

   private:
    interpreter& owner_;
    scope* before_;
  };

  /// Renders a block and returns its text.
  value captured(const block& body) {
    const inner_scope inside(*this);
    return captured_here(body);
  }
  value captured_here(const block& body) {
    tagged_text text;
    tagged_text* const outside = std::exchange(out_, &text);
    run(body);
    out_ = outside;
    return text;
  }

  void assign(const assignment_target& target, const value& v) {
    work_.write(sizeof(std::pair<std::string_view, value>));
    if (target.unpacks) {
      const std::vector<value> parts = items_of(v, work_);
      if (parts.size() != target.parts.size())
        refuse(std::to_string(target.parts.size()) + " values to unpack", std::to_string(parts.size()));
      for (std::size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
      return;
    }
    if (target.member.empty()) return scope_->set(target.name, v, work_);
    const value* found = scope_->find(target.name, work_);
    const auto* space = found ? found->get_if<name_space*>() : nullptr;
    if (!space) refuse("a namespace to set a member of", found ? described(*found) : in_quotes(target.name) + ", which is undefined");
    work_.write(target.member.size() + sizeof(value));
    (*space)->members[target.member] = v;
  }

  value define(const macro_definition& definition) {
    work_.write(sizeof(macro));
    macros_.push_back({&definition, scope_});
    return static_cast<const macro*>(&macros_.back());
  }

  // Expressions. Evaluating the operands moves `at_`, so each expression sets it again before it applies its own operation.

  value eval(const expression_ptr& e, const value* filtered_block = nullptr) {
    const budget::level deeper(work_);
    work_.step();
    at_ = e->at;
    if (const auto* f = std::get_if<filtered>(&e->form)) return eval(*f, e->at, filtered_block);
    return std::visit([&](const auto& form) { return eval(form, e->at); }, e->form);
  }

  value eval(const literal& e, position) { return e.constant; }
  value eval(const name_of& e, position) {
    if (const value* found = scope_->find(e.name, work_)) return *found;
    constexpr std::pair<std::string_view, function> globals[] = {{"range", function::range},
                                                                 {"dict", function::dict},
                                                                 {"namespace", function::namespace_},
                                                                 {"joiner", function::joiner},
                                                                 {"cycler", function::cycler},
                                                                 {"raise_exception", function::raise_exception},
                                                                 {"strftime_now", function::strftime_now}};
    for (const auto& [name, what] : globals)
      if (e.name == name) return what;
    return make_undefined(in_quotes(e.name) + ", which is undefined");
  }
  value eval(const list_of& e, position) {
    std::vector<value> items;
    items.reserve(e.items.size());
    for (const expression_ptr& item : e.items) items.push_back(eval(item));
    return make_sequence(e.kind, std::move(items), work_);
  }
  value eval(const dict_of& e, position at) {
    dict made;
    for (const auto& [key, item] : e.entries) {
      const value name = eval(key);
      at_ = at;
      work_.write(sizeof(dict::entry) + 2 * key_size(name));
      if (!key_bytes(name)) refuse("a string, a number, none or a tuple of these as a key", described(name));
      made.set(name, eval(item));
    }
    return std::make_shared<const dict>(std::move(made));
  }
  value eval(const negation& e, position) { return value(!truth(eval(e.operand))); }
  value eval(const signed_number& e, position at) {
    const value v = eval(e.operand);
    at_ = at;
    need_defined(v);
    if (!v.is_number()) refuse("a number", described(v));
    return e.negative ? negated(v) : v.is(kind::boolean) ? value(*v.integer()) : v;
  }
  value eval(const binary& e, position at) {
    const value left = eval(e.left);
    const value right = eval(e.right);
    at_ = at;
    if (e.what == operation::modulo && left.text()) return formatted(*left.text(), right, work_);
    return arithmetic(e.what, left, right, work_);
  }
  value eval(const logical& e, position) {
    value left = eval(e.left);
    return truth(left) == e.is_and ? eval(e.right) : left;
  }
  value eval(const comparisons& e, position at) {
    value left = eval(e.first);
    for (const auto& [what, operand] : e.rest) {
      value right = eval(operand);
      at_ = at;
      if (!compare(what, left, right)) return value(false);
      left = std::move(right);
    }
    return value(true);
  }
  bool compare(comparison what, const value& left, const value& right) {
    switch (what) {
      case comparison::equal:
        return equal(left, right, work_);
      case comparison::not_equal:
        return !equal(left, right, work_);
      case comparison::less:
        return less(left, right, work_);
      case comparison::less_equal:
        return less(left, right, work_) || equal(left, right, work_);
      case comparison::greater:
        return less(right, left, work_);
      case comparison::greater_equal:
        return less(right, left, work_) || equal(left, right, work_);
      case comparison::in:
        return contains(right, left, work_);
      case comparison::not_in:
        return !contains(right, left, work_);
    }
    return false;
  }
  value eval(const concatenation& e, position at) {
    tagged_text all;
    for (const expression_ptr& part : e.parts) {
      const value v = eval(part);
      at_ = at;
      const text_ptr text = text_of(v, work_);
      work_.write(text->size());
      all.append(*text);
    }
    return all;
  }
  value eval(const conditional& e, position) {
    if (truth(eval(e.condition))) return eval(e.then);
    return e.otherwise ? eval(e.otherwise) : make_undefined("an \"if\" without \"else\" whose condition does not hold");
  }
  value eval(const member& e, position at) {
    const value object = eval(e.object);
    at_ = at;
    if (const auto* m = object.get_if<const macro*>(); m && e.name == "name") return template_text((*m)->definition->name);
    return member_of(object, e.name, work_);
  }
  value eval(const subscript& e, position at) {
    const value object = eval(e.object);
    const value index = eval(e.index);
    at_ = at;
    return item_of(object, index, work_);
  }
  value eval(const slice& e, position at) {
    const value object = eval(e.object);
    const auto bound = [&](const expression_ptr& part) -> std::optional<std::int64_t> {
      if (!part) return std::nullopt;
      const value v = eval(part);
      if (v.is_none()) return std::nullopt;
      if (!v.integer()) refuse("a whole number", described(v));
      return *v.integer();
    };
    const auto start = bound(e.start), stop = bound(e.stop), step = bound(e.step);
    at_ = at;
    need_defined(object);
    if (auto part = sliced(object, start, stop, step, work_)) return *std::move(part);
    return make_undefined("a slice of " + described(object));
  }
  value eval(const filtered& e, position at, const value* filtered_block = nullptr) {
    const value operand = e.operand ? eval(e.operand, filtered_block) : *filtered_block;
    const arguments given = eval(e.arguments);
    at_ = at;
    const filter_function apply = find_filter(e.name);
    if (!apply) refuse("a filter that is supported", in_quotes(e.name), error_code::unsupported);
    return apply(operand, given, e.name, work_);
  }
  value eval(const tested& e, position at) {
    const value operand = eval(e.operand);
    const arguments given = eval(e.arguments);
    at_ = at;
    const test_function holds = find_test(e.name);
    if (!holds) refuse("a test that is supported", in_quotes(e.name), error_code::unsupported);
    return value(holds(operand, given, e.name, work_));
  }

  arguments eval(const call_arguments& e) {
    arguments given;
    for (const expression_ptr& a : e.positional) given.positional.push_back(eval(a));
    for (const auto& [name, a] : e.named) given.named.emplace_back(name, eval(a));
    if (e.items)
      for (value& item : items_of(eval(e.items), work_)) given.positional.push_back(std::move(item));
    if (!e.members) return given;
    const value members = eval(e.members);
    if (!members.dict()) refuse("a dictionary to unpack", described(members));
    work_.write(members.dict()->entries.size() * sizeof(dict::entry));
    for (const bool trusted : {true, false})
      for (const auto& [key, item] : members.dict()->entries) {
        if (!key.text()) refuse("strings as names of arguments", described(key));
        if (key.text()->trusted() != trusted) continue;
        const std::string& name = key.text()->bytes();
        if (std::ranges::any_of(given.named, [&](const auto& n) { return n.first == name; }))
          refuse("each argument once", in_quotes(name) + " twice");
        work_.write(name.size());
        given.named.emplace_back(name, item);
        if (!trusted) ++given.named_by_user;
      }
    return given;
  }

  // Calls

  value eval(const call& e, position at, const value* caller = nullptr) {
    if (const auto* m = std::get_if<member>(&e.callee->form)) {  // a method is called at once, without a bound_method
      const value object = eval(m->object);
      at_ = at;
      need_defined(object);
      if (const std::string_view* method = find_method(object, m->name)) {
        const arguments given = eval(e.arguments);
        at_ = at;
        return called(object, *method, given);
      }
      const value callee = member_of(object, m->name, work_);
      return called(callee, eval(e.arguments), caller, at);
    }
    const value callee = eval(e.callee);
    return called(callee, eval(e.arguments), caller, at);
  }

  value called(const value& callee, const arguments& given, const value* caller, position at) {
    at_ = at;
    if (const auto* m = callee.get_if<const macro*>()) return called(**m, given, caller, at);
    if (const auto* t = callee.get_if<turns*>(); t && (*t)->joins) {
      bound_arguments("joiner", given, {});
      return (*t)->next();
    }
    if (const auto* f = callee.get_if<function>()) return called(*f, given);
    if (const auto* m = callee.get_if<std::shared_ptr<const bound_method>>()) return called((*m)->self, (*m)->name, given);
    need_defined(callee);
    refuse("a function to call", described(callee));
  }

  value called(const value& self, std::string_view name, const arguments& given) {
    if (self.text() && name == "format") return formatted_by_fields(*self.text(), given, work_);
    if (self.text() && name == "format_map") {
      const bound_arguments a(name, given, {"mapping"}, 1);
      if (!a[0].dict()) refuse("a dictionary", described(a[0]));
      return formatted_by_fields(*self.text(), *a[0].dict(), work_);
    }
    const auto* loop = self.get_if<const loop_state*>();
    if (!loop) return call_method(self, name, given, work_);
    if (name == "cycle") {
      if (given.positional.empty()) refuse("values to cycle through", "none");
      return given.positional[(*loop)->index % given.positional.size()];
    }
    const auto& seen = (*loop)->seen;
    const bool same = seen && seen->size() == given.positional.size() &&
                      std::equal(given.positional.begin(), given.positional.end(), seen->begin(),
                                 [&](const value& a, const value& b) { return equal(a, b, work_); });
    if (!same) (*loop)->seen = given.positional;
    return value(!same);
  }

  value called(const macro& m, const arguments& given, const value* caller, position at) {
    const std::vector<parameter>& parameters = m.definition->parameters;
    if (given.positional.size() > parameters.size())
      refuse("at most " + std::to_string(parameters.size()) + " arguments of " + in_quotes(m.definition->name),
             std::to_string(given.positional.size()));
    const inner_scope inside(*this, m.home);
    std::size_t matched = given.positional.size();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto named = std::ranges::find(given.named, parameters[i].name, [](const auto& n) { return std::string_view(n.first); });
      if (named != given.named.end()) {
        if (i < given.positional.size()) refuse("each argument once", in_quotes(parameters[i].name) + " twice");
        ++matched;
      }
      value v = i < given.positional.size()  ? given.positional[i]
                : named != given.named.end() ? named->second
                : parameters[i].preset       ? eval(parameters[i].preset)
                                             : make_undefined("no argument " + in_quotes(parameters[i].name));
      scope_->set(parameters[i].name, std::move(v), work_);
    }
    if (matched != given.positional.size() + given.named.size()) {
      at_ = at;
      refuse("only arguments that " + in_quotes(m.definition->name) + " declares", "another name");
    }
    scope_->set("caller", caller ? *caller : make_undefined("\"caller\" outside a call block"), work_);
    return captured_here(m.definition->body);
  }

  value called(function what, const arguments& given) {
    switch (what) {
      case function::range:
        return range(given);
      case function::dict:
      case function::namespace_:
        return new_mapping(what, given);
      case function::joiner:
      case function::cycler:
        return new_turns(what, given);
      case function::raise_exception: {
        const bound_arguments a("raise_exception", given, {"message"}, 1);
        throw raised_exception{text_of(a[0], work_)->bytes()};
      }
      case function::strftime_now: {
        const bound_arguments a("strftime_now", given, {"format"}, 1);
        return written_time(now_(), a.text(0), work_);
      }
    }
    refuse("a function", "none");
  }

  value range(const arguments& given) {
    const bound_arguments a("range", given, {"start", "stop", "step"}, 1);
    const std::int64_t first = a.has(1) ? a.integer(0, 0) : 0, end = a.has(1) ? a.integer(1, 0) : a.integer(0, 0), step = a.integer(2, 1);
    if (step == 0) refuse("a step that is not 0", "0");
    std::vector<value> items;
    for (std::int64_t i = first; step > 0 ? i < end : i > end;) {
      work_.write(sizeof(value));
      items.emplace_back(i);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    return make_sequence(sequence_kind::range, std::move(items), work_);
  }

  value new_turns(function what, const arguments& given) {
    turns made;
    made.joins = what == function::joiner;
    if (made.joins)
      made.items = {template_text(""), bound_arguments("joiner", given, {"sep"}).or_else(0, template_text(", "))};
    else if (given.named.empty())
      made.items = given.positional;
    if (made.items.empty()) refuse("values to cycle through", "none");
    work_.write(sizeof(turns) + made.items.size() * sizeof(value));
    turns_.push_back(std::move(made));
    return &turns_.back();
  }

  value new_mapping(function what, const arguments& given) {
    dict made;
    if (given.positional.size() > 1) refuse("at most one dictionary", std::to_string(given.positional.size()));
    if (!given.positional.empty()) {
      if (!given.positional[0].dict()) refuse("a dictionary", described(given.positional[0]));
      work_.write(given.positional[0].dict()->entries.size() * sizeof(dict::entry));
      made = *given.positional[0].dict();
    }
    const std::size_t written = given.named.size() - given.named_by_user;
    for (std::size_t i = 0; i < given.named.size(); ++i) {
      const auto& [name, item] = given.named[i];
      work_.write(sizeof(dict::entry) + name.size());
      made.set(tagged_text(name, i < written), item);
    }
    if (what == function::dict) return std::make_shared<const dict>(std::move(made));
    spaces_.emplace_back();
    work_.write(sizeof(name_space) + made.entries.size() * sizeof(dict::entry));
    for (const auto& [key, item] : made.entries) {
      if (!key.text()) refuse("strings as names of a namespace's members", described(key));
      spaces_.back().members[key.text()->bytes()] = item;
    }
    return &spaces_.back();
  }

  budget& work_;
  const std::function<std::tm()>& now_;
  position at_{};
  tagged_text rendered_;
  tagged_text* out_ = &rendered_;
  std::deque<name_space> spaces_;
  std::deque<turns> turns_;
  std::deque<loop_state> loops_;
  std::deque<macro> macros_;
  std::deque<scope> scopes_;
  scope* scope_ = nullptr;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
