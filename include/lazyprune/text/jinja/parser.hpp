// SPDX-License-Identifier: MIT
// Parses tokens to a syntax tree, by jinja2's grammar. A construct that is not supported is an error with line and column.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/core/error.hpp>
#include <lazyprune/text/jinja/filters.hpp>
#include <lazyprune/text/jinja/lexer.hpp>
#include <lazyprune/text/jinja/syntax.hpp>
#include <lazyprune/text/jinja/tests.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

class parser {
 public:
  /// `name` is the file name in errors.
  parser(std::string_view source, std::string_view name) : name_(name), tokens_(lexer(source, name).run()) {}

  block run() {
    block all = parse_block({});
    if (!is(token_kind::end)) fail_unknown_block();
    if (unknown_) throw *unknown_;
    return all;
  }

 private:
  /// The largest allowed depth of nested expressions and blocks. It bounds the recursion of all code that walks the tree.
  static constexpr std::size_t most_levels = 200;

  class level {
   public:
    explicit level(parser& p) : parser_(p) { parser_.deepen(); }
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    ~level() { --parser_.levels_; }

   private:
    parser& parser_;
  };

  void deepen() {
    if (++levels_ > most_levels) fail("at most " + std::to_string(most_levels) + " nested levels", "more");
  }

  // Tokens

  const token& now() const { return tokens_[next_]; }
  const token& ahead() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  bool is(token_kind kind) const { return now().kind == kind; }
  bool is_symbol(std::string_view text) const { return is(token_kind::symbol) && now().text == text; }
  bool is_name(std::string_view text) const { return is(token_kind::name) && now().text == text; }
  token take() { return next_ + 1 < tokens_.size() ? std::move(tokens_[next_++]) : tokens_[next_]; }
  bool skip_symbol(std::string_view text) { return skip_if(is_symbol(text)); }
  bool skip_name(std::string_view text) { return skip_if(is_name(text)); }
  bool skip_if(bool found) {
    if (found) take();
    return found;
  }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) fail_here(in_quotes(text));
  }
  std::string expect_name() {
    if (!is(token_kind::name)) fail_here("a name");
    return take().text;
  }
  void expect_end_of_block() {
    if (!is(token_kind::end_block)) fail_here("\"%}\"");
    take();
  }

  std::string shown() const {
    switch (now().kind) {
      case token_kind::end:
        return "the end of the template";
      case token_kind::end_block:
        return "\"%}\"";
      case token_kind::end_output:
        return "\"}}\"";
      case token_kind::string:
        return "the string " + in_quotes(now().text);
      default:
        return in_quotes(now().text);
    }
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    fail_at(now().at, expected, found, code);
  }
  [[noreturn]] void fail_at(position at, std::string_view expected, std::string_view found, error_code code = error_code::bad_input) const {
    throw error(name_, place(at), expected, found, code);
  }
  [[noreturn]] void fail_here(std::string_view expected) const { fail(expected, shown()); }

  /// Notes a filter or test that is not supported. As in jinja2, the template is refused if the filter or test stands outside all branches.
  /// Inside a branch it is an error only if the branch runs.
  void note_unknown(position at, std::string_view expected, std::string_view name) {
    if (branches_ == 0 && !unknown_) unknown_.emplace(name_, place(at), expected, in_quotes(name), error_code::unsupported);
  }

  // Statements

  /// Parses up to the end, or up to a block tag that begins with one of these words. That word is then the next token.
  block parse_block(std::initializer_list<std::string_view> ends) {
    const level deeper(*this);
    block all;
    while (!is(token_kind::end)) {
      const position at = now().at;
      if (is(token_kind::text)) {
        all.emplace_back(at, plain_text{template_text(take().text)});
      } else if (is(token_kind::begin_output)) {
        take();
        all.emplace_back(at, output{parse_tuple()});
        if (!is(token_kind::end_output)) fail_here("\"}}\"");
        take();
      } else {
        if (ahead().kind != token_kind::name) {
          take();
          fail_here("a statement");
        }
        for (const std::string_view end : ends)
          if (ahead().text == end) {
            take();
            return all;
          }
        take();
        parse_statement(at, all);
      }
    }
    if (ends.size() > 0) fail_here("{% " + std::string(*(ends.end() - 1)) + " %}");
    return all;
  }

  [[noreturn]] void fail_unknown_block() const {
    fail("if, for, set, macro, call, filter, with, break, continue, generation or raw", shown(), error_code::unsupported);
  }

  void parse_statement(position at, block& into) {
    if (skip_name("if")) return void(into.emplace_back(at, parse_if()));
    if (skip_name("for")) return void(into.emplace_back(at, parse_for()));
    if (skip_name("set")) return parse_set(at, into);
    if (skip_name("macro")) return void(into.emplace_back(at, parse_macro()));
    if (skip_name("call")) return void(into.emplace_back(at, parse_call_block()));
    if (skip_name("filter")) return void(into.emplace_back(at, parse_filter_block()));
    if (skip_name("with")) return void(into.emplace_back(at, parse_with()));
    if (is_name("break") || is_name("continue")) {
      if (loops_ == 0) fail("a loop around it", shown());
      const bool breaks = take().text == "break";
      expect_end_of_block();
      if (breaks)
        into.emplace_back(at, break_loop{});
      else
        into.emplace_back(at, continue_loop{});
      return;
    }
    if (skip_name("generation")) {  // `generation` marks what the model wrote; such a block is rendered in a scope of its own
      expect_end_of_block();
      with_block marked;
      marked.body = parse_body("endgeneration");
      expect_end_of_block();
      into.emplace_back(at, std::move(marked));
      return;
    }
    fail_unknown_block();
  }

  /// Parses the inside of a block and its closing tag.
  block parse_body(std::string_view end) {
    block body = parse_block({end});
    take();
    return body;
  }

  branches parse_if() {
    branches all;
    ++branches_;
    for (;;) {
      expression_ptr condition = parse_tuple(false);
      expect_end_of_block();
      block body = parse_block({"elif", "else", "endif"});
      all.cases.emplace_back(std::move(condition), std::move(body));
      const std::string word = take().text;
      if (word == "elif") continue;
      if (word == "else") {
        expect_end_of_block();
        all.otherwise = parse_body("endif");
      }
      expect_end_of_block();
      --branches_;
      return all;
    }
  }

  for_loop parse_for() {
    for_loop loop;
    loop.target = parse_target(false);
    if (!skip_name("in")) fail_here("\"in\"");
    loop.items = parse_tuple(false);
    if (skip_name("if")) loop.condition = parse_expression();
    if (is_name("recursive")) fail("no recursive loop", shown(), error_code::unsupported);
    expect_end_of_block();
    ++loops_;
    loop.body = parse_block({"else", "endfor"});
    --loops_;
    if (take().text == "else") {
      expect_end_of_block();
      loop.otherwise = parse_body("endfor");
    }
    expect_end_of_block();
    return loop;
  }

  assignment_target parse_target(bool with_member) {
    assignment_target first = parse_one_target(with_member);
    if (!is_symbol(",")) return first;
    assignment_target all;
    all.unpacks = true;
    all.parts.push_back(std::move(first));
    while (skip_symbol(",") && (is_symbol("(") || (is(token_kind::name) && !is_name("in"))))
      all.parts.push_back(parse_one_target(with_member));
    return all;
  }

  assignment_target parse_one_target(bool with_member) {
    const level deeper(*this);
    if (skip_symbol("(")) {
      assignment_target inside = parse_target(false);
      expect_symbol(")");
      return inside;
    }
    assignment_target target;
    const position at = now().at;
    target.name = expect_name();
    for (const std::string_view word : {"true", "false", "none", "True", "False", "None"})
      if (target.name == word) fail_at(at, "a name that can be set", in_quotes(target.name));
    if (with_member && skip_symbol(".")) target.member = expect_name();
    return target;
  }

  void parse_set(position at, block& into) {
    assignment_target target = parse_target(true);
    if (skip_symbol("=")) {
      into.emplace_back(at, assignment{std::move(target), parse_tuple()});
      expect_end_of_block();
      return;
    }
    block_assignment set;
    set.target = std::move(target);
    if (is_symbol("|")) set.filters = parse_filters(nullptr);
    expect_end_of_block();
    set.body = parse_captured_body("endset");
    expect_end_of_block();
    into.emplace_back(at, std::move(set));
  }

  std::vector<parameter> parse_parameters() {
    std::vector<parameter> all;
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!all.empty()) expect_symbol(",");
      parameter p{expect_name(), nullptr};
      if (skip_symbol("="))
        p.preset = parse_expression();
      else if (!all.empty() && all.back().preset)
        fail_here("a default, as for the parameter before");
      all.push_back(std::move(p));
    }
    expect_symbol(")");
    return all;
  }

  macro_definition parse_macro() {
    macro_definition macro{expect_name(), parse_parameters(), {}};
    expect_end_of_block();
    macro.body = parse_captured_body("endmacro");
    expect_end_of_block();
    return macro;
  }

  /// Parses a body whose text is captured. `break` and `continue` cannot leave this body.
  block parse_captured_body(std::string_view end) {
    const std::size_t outside = std::exchange(loops_, 0);
    block body = parse_body(end);
    loops_ = outside;
    return body;
  }

  call_block parse_call_block() {
    call_block made;
    made.caller.name = "caller";
    if (is_symbol("(")) made.caller.parameters = parse_parameters();
    made.what = parse_expression();
    if (!std::holds_alternative<call>(made.what->form)) fail_here("a call");
    expect_end_of_block();
    made.caller.body = parse_captured_body("endcall");
    expect_end_of_block();
    return made;
  }

  filter_block parse_filter_block() {
    filter_block made;
    made.filters = parse_filter(nullptr, now().at);
    made.filters = parse_filters(std::move(made.filters));
    expect_end_of_block();
    made.body = parse_captured_body("endfilter");
    expect_end_of_block();
    return made;
  }

  with_block parse_with() {
    with_block made;
    while (!is(token_kind::end_block)) {
      if (!made.names.empty()) expect_symbol(",");
      assignment_target target = parse_target(false);
      expect_symbol("=");
      made.names.emplace_back(std::move(target), parse_expression());
    }
    expect_end_of_block();
    made.body = parse_body("endwith");
    expect_end_of_block();
    return made;
  }

  // Expressions, from the lowest precedence to the highest

  template <class Node>
  static expression_ptr make(position at, Node node) {
    return std::make_unique<expression>(at, std::move(node));
  }

  /// Parses one expression, or a tuple of several with commas between them.
  expression_ptr parse_tuple(bool with_conditional = true) {
    const position at = now().at;
    expression_ptr first = with_conditional ? parse_expression() : parse_or();
    if (!is_symbol(",")) return first;
    list_of tuple{sequence_kind::tuple, {}};
    tuple.items.push_back(std::move(first));
    while (skip_symbol(",")) {
      if (is(token_kind::end_block) || is(token_kind::end_output) || is_symbol(")")) break;
      tuple.items.push_back(with_conditional ? parse_expression() : parse_or());
    }
    return make(at, std::move(tuple));
  }

  expression_ptr parse_expression() {
    const level deeper(*this);
    const std::size_t outside = levels_;
    const position at = now().at;
    const std::optional<error> before = unknown_;
    expression_ptr e = parse_or();
    while (skip_name("if")) {
      deepen();  // each `if` nests the expression one level deeper
      expression_ptr condition = parse_or();
      expression_ptr otherwise = skip_name("else") ? parse_expression() : nullptr;
      e = make(at, conditional{std::move(condition), std::move(e), std::move(otherwise)});
      unknown_ = before;
    }
    levels_ = outside;
    return e;
  }

  /// Parses `operand (operator operand)*`, grouped from the left. `link` parses an operator and its right side, or returns null.
  template <class Operand, class Link>
  expression_ptr parse_chain(Operand operand, Link link) {
    const std::size_t outside = levels_;
    expression_ptr left = operand();
    while (expression_ptr longer = link(left)) {
      left = std::move(longer);
      deepen();  // each operator nests the expression one level deeper
    }
    levels_ = outside;
    return left;
  }

  expression_ptr parse_or() {
    return parse_chain([&] { return parse_and(); },
                       [&](expression_ptr& left) -> expression_ptr {
                         const position at = now().at;
                         if (!skip_name("or")) return nullptr;
                         expression_ptr right = parse_and();
                         return make(at, logical{false, std::move(left), std::move(right)});
                       });
  }
  expression_ptr parse_and() {
    return parse_chain([&] { return parse_not(); },
                       [&](expression_ptr& left) -> expression_ptr {
                         const position at = now().at;
                         if (!skip_name("and")) return nullptr;
                         expression_ptr right = parse_not();
                         return make(at, logical{true, std::move(left), std::move(right)});
                       });
  }
  expression_ptr parse_not() {
    const position at = now().at;
    if (!skip_name("not")) return parse_comparisons();
    const level deeper(*this);
    return make(at, negation{parse_not()});
  }

  bool take_comparison(comparison& what) {
    constexpr std::pair<std::string_view, comparison> symbols[] = {{"==", comparison::equal},  {"!=", comparison::not_equal},
                                                                   {"<", comparison::less},    {"<=", comparison::less_equal},
                                                                   {">", comparison::greater}, {">=", comparison::greater_equal}};
    for (const auto& [text, meant] : symbols)
      if (skip_symbol(text)) {
        what = meant;
        return true;
      }
    what = comparison::in;
    if (skip_name("in")) return true;
    if (!is_name("not") || ahead().kind != token_kind::name || ahead().text != "in") return false;
    take();
    take();
    what = comparison::not_in;
    return true;
  }

  expression_ptr parse_comparisons() {
    const position at = now().at;
    expression_ptr first = parse_sum();
    comparisons all;
    for (comparison what{}; take_comparison(what);) all.rest.emplace_back(what, parse_sum());
    if (all.rest.empty()) return first;
    all.first = std::move(first);
    return make(at, std::move(all));
  }

  /// Parses `left OP right` if the next token is one of `symbols`. Else returns null.
  template <class Operand>
  expression_ptr link(expression_ptr& left, std::initializer_list<std::pair<std::string_view, operation>> symbols, Operand operand) {
    const position at = now().at;
    for (const auto& [text, what] : symbols)
      if (skip_symbol(text)) {
        expression_ptr right = operand();
        return make(at, binary{what, std::move(left), std::move(right)});
      }
    return nullptr;
  }

  expression_ptr parse_sum() {
    const auto operand = [&] { return parse_concatenation(); };
    return parse_chain(operand, [&](expression_ptr& left) {
      return link(left, {{"+", operation::add}, {"-", operation::subtract}}, operand);
    });
  }
  expression_ptr parse_concatenation() {
    const position at = now().at;
    expression_ptr first = parse_product();
    if (!is_symbol("~")) return first;
    concatenation all;
    all.parts.push_back(std::move(first));
    while (skip_symbol("~")) all.parts.push_back(parse_product());
    return make(at, std::move(all));
  }
  expression_ptr parse_product() {
    const auto operand = [&] { return parse_power(); };
    return parse_chain(operand, [&](expression_ptr& left) {
      return link(left, {{"*", operation::multiply}, {"/", operation::divide}, {"//", operation::floor_divide}, {"%", operation::modulo}},
                  operand);
    });
  }
  expression_ptr parse_power() {
    const auto operand = [&] { return parse_unary(true); };
    return parse_chain(operand, [&](expression_ptr& left) { return link(left, {{"**", operation::power}}, operand); });
  }

  expression_ptr parse_unary(bool with_filters) {
    const level deeper(*this);
    const position at = now().at;
    expression_ptr e;
    if (is_symbol("-") || is_symbol("+")) {
      const bool negative = take().text == "-";
      e = make(at, signed_number{negative, parse_unary(false)});
    } else {
      e = parse_primary();
    }
    e = parse_postfix(std::move(e));
    return with_filters ? parse_filters(std::move(e)) : std::move(e);
  }

  expression_ptr parse_postfix(expression_ptr e) {
    return parse_chain([&] { return std::move(e); },
                       [&](expression_ptr& left) -> expression_ptr {
                         const position at = now().at;
                         if (skip_symbol(".")) return parse_member(at, std::move(left));
                         if (skip_symbol("[")) return parse_subscript(at, std::move(left));
                         if (is_symbol("(")) return make(at, call{std::move(left), parse_arguments()});
                         return nullptr;
                       });
  }

  /// Parses filters, tests, and calls of their results.
  expression_ptr parse_filters(expression_ptr e) {
    return parse_chain([&] { return std::move(e); },
                       [&](expression_ptr& left) -> expression_ptr {
                         const position at = now().at;
                         if (skip_symbol("|")) return parse_filter(std::move(left), now().at);
                         if (skip_name("is")) return parse_test(at, std::move(left));
                         if (left && is_symbol("(")) return make(at, call{std::move(left), parse_arguments()});
                         return nullptr;
                       });
  }

  expression_ptr parse_filter(expression_ptr operand, position at) {
    filtered f{std::move(operand), expect_name(), {}};
    if (!find_filter(f.name)) note_unknown(at, "a filter that is known here", f.name);
    if (is_symbol("(")) f.arguments = parse_arguments();
    return make(at, std::move(f));
  }

  expression_ptr parse_test(position at, expression_ptr operand) {
    const bool negated = skip_name("not");
    const position name_at = now().at;
    tested t{std::move(operand), expect_name(), {}};
    if (!find_test(t.name)) note_unknown(name_at, "a test that is known here", t.name);
    if (is_symbol("(")) {
      t.arguments = parse_arguments();
    } else if ((is(token_kind::name) && !is_name("else") && !is_name("or") && !is_name("and")) || is(token_kind::string) ||
               is(token_kind::integer) || is(token_kind::real) || is_symbol("[") || is_symbol("{")) {
      if (is_name("is")) fail_here("no test of a test");
      t.arguments.positional.push_back(parse_postfix(parse_primary()));
    }
    expression_ptr e = make(at, std::move(t));
    return negated ? make(at, negation{std::move(e)}) : std::move(e);
  }

  call_arguments parse_arguments() {
    call_arguments all;
    expect_symbol("(");
    while (!is_symbol(")")) {
      if (!all.positional.empty() || !all.named.empty() || all.items || all.members) {
        expect_symbol(",");
        if (is_symbol(")")) break;
      }
      if (all.members) fail_here("\")\"");
      if (skip_symbol("**")) {
        all.members = parse_expression();
      } else if (is_symbol("*") && !all.items) {
        take();
        all.items = parse_expression();
      } else if (is(token_kind::name) && ahead().kind == token_kind::symbol && ahead().text == "=") {
        std::string name = take().text;
        take();
        all.named.emplace_back(std::move(name), parse_expression());
      } else if (!all.named.empty() || all.items) {
        fail_here("a named argument");
      } else {
        all.positional.push_back(parse_expression());
      }
    }
    expect_symbol(")");
    return all;
  }

  expression_ptr parse_member(position at, expression_ptr object) {
    if (is(token_kind::integer)) {
      expression_ptr index = parse_integer();
      return make(at, subscript{std::move(object), std::move(index)});
    }
    return make(at, member{std::move(object), expect_name()});
  }

  /// Parses one index, a slice, or a tuple of any other number of indices: a[i], a[i:j:k], a[i, j], a[].
  expression_ptr parse_subscript(position at, expression_ptr object) {
    expression_ptr start, stop, step;
    if (!is_symbol(":") && !is_symbol("]")) start = parse_expression();
    if (!is_symbol(":")) {
      if (!start || is_symbol(",")) {
        list_of indices{sequence_kind::tuple, {}};
        if (start) indices.items.push_back(std::move(start));
        while (skip_symbol(",")) indices.items.push_back(parse_expression());
        if (is_symbol(":")) fail("no slice among indices", shown(), error_code::unsupported);
        start = make(at, std::move(indices));
      }
      expect_symbol("]");
      return make(at, subscript{std::move(object), std::move(start)});
    }
    take();
    if (!is_symbol(":") && !is_symbol("]")) stop = parse_expression();
    if (skip_symbol(":") && !is_symbol("]")) step = parse_expression();
    if (is_symbol(",")) fail("no slice among indices", shown(), error_code::unsupported);
    expect_symbol("]");
    return make(at, slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
  }

  expression_ptr parse_integer() {
    const token t = take();
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), number);
    if (fault != std::errc{}) fail_at(t.at, "a number of at most 64 bits", in_quotes(t.text), error_code::unsupported);
    return make(t.at, literal{value(number)});
  }

  expression_ptr parse_primary() {
    const position at = now().at;
    if (is(token_kind::name)) {
      std::string name = take().text;
      if (name == "true" || name == "True") return make(at, literal{value(true)});
      if (name == "false" || name == "False") return make(at, literal{value(false)});
      if (name == "none" || name == "None") return make(at, literal{none_type{}});
      return make(at, name_of{std::move(name)});
    }
    if (is(token_kind::string)) {
      std::string text = take().text;
      while (is(token_kind::string)) text += take().text;
      return make(at, literal{template_text(text)});
    }
    if (is(token_kind::integer)) return parse_integer();
    if (is(token_kind::real)) {
      const token t = take();
      double number = 0;
      const auto fault = std::from_chars(t.text.data(), t.text.data() + t.text.size(), number).ec;
      if (fault != std::errc{}) fail_at(t.at, "a number that a double holds", in_quotes(t.text), error_code::unsupported);
      return make(at, literal{value(number)});
    }
    if (skip_symbol("(")) {
      expression_ptr e = is_symbol(")") ? make(at, list_of{sequence_kind::tuple, {}}) : parse_tuple();
      expect_symbol(")");
      return e;
    }
    if (skip_symbol("[")) return parse_list(at);
    if (skip_symbol("{")) return parse_dict(at);
    fail_here("an expression");
  }

  expression_ptr parse_list(position at) {
    list_of list{sequence_kind::list, {}};
    while (!is_symbol("]")) {
      if (!list.items.empty()) expect_symbol(",");
      if (is_symbol("]")) break;
      list.items.push_back(parse_expression());
    }
    expect_symbol("]");
    return make(at, std::move(list));
  }

  expression_ptr parse_dict(position at) {
    dict_of dict;
    while (!is_symbol("}")) {
      if (!dict.entries.empty()) expect_symbol(",");
      if (is_symbol("}")) break;
      expression_ptr key = parse_expression();
      expect_symbol(":");
      dict.entries.emplace_back(std::move(key), parse_expression());
    }
    expect_symbol("}");
    return make(at, std::move(dict));
  }

  std::string name_;
  std::vector<token> tokens_;
  std::size_t next_ = 0, levels_ = 0, loops_ = 0, branches_ = 0;
  std::optional<error> unknown_;  // the first unsupported filter or test outside all branches
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
