// SPDX-License-Identifier: MIT
// The syntax tree of a template: the expressions and statements of Jinja that chat templates use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <lazyprune/text/jinja/lexer.hpp>
#include <lazyprune/text/jinja/value.hpp>

namespace lazyprune {
inline namespace v0 {
namespace jinja {

struct expression;
using expression_ptr = std::unique_ptr<expression>;

struct call_arguments {
  std::vector<expression_ptr> positional;
  std::vector<std::pair<std::string, expression_ptr>> named;
  expression_ptr items, members;  // *items, **members; each may be null
};

enum class operation : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

struct literal {
  value constant;
};
struct name_of {
  std::string name;
};
struct list_of {
  sequence_kind kind;  // list or tuple
  std::vector<expression_ptr> items;
};
struct dict_of {
  std::vector<std::pair<expression_ptr, expression_ptr>> entries;
};
struct negation {  // not x
  expression_ptr operand;
};
struct signed_number {  // -x, +x
  bool negative;
  expression_ptr operand;
};
struct binary {
  operation what;
  expression_ptr left, right;
};
struct logical {  // and, or
  bool is_and;
  expression_ptr left, right;
};
struct comparisons {  // a < b < c
  expression_ptr first;
  std::vector<std::pair<comparison, expression_ptr>> rest;
};
struct concatenation {  // a ~ b ~ c
  std::vector<expression_ptr> parts;
};
struct conditional {                          // a if b else c
  expression_ptr condition, then, otherwise;  // `otherwise` may be null
};
struct member {  // a.b
  expression_ptr object;
  std::string name;
};
struct subscript {  // a[b]
  expression_ptr object, index;
};
struct slice {  // a[b:c:d]; b, c and d may be null
  expression_ptr object, start, stop, step;
};
struct call {
  expression_ptr callee;
  call_arguments arguments;
};
struct filtered {  // a | f(b); a null operand stands for the text of a filter block or set block
  expression_ptr operand;
  std::string name;
  call_arguments arguments;
};
struct tested {  // a is t(b)
  expression_ptr operand;
  std::string name;
  call_arguments arguments;
};

struct expression {
  using node = std::variant<literal, name_of, list_of, dict_of, negation, signed_number, binary, logical, comparisons, concatenation,
                            conditional, member, subscript, slice, call, filtered, tested>;
  expression(position where, node what) : at(where), form(std::move(what)) {}

  position at;
  node form;
};

struct statement;
using block = std::vector<statement>;

/// The target of `for`, `set` or `with`: a name, a member of a namespace (only in `set`), or a tuple of targets.
struct assignment_target {
  std::string name{};
  std::string member{};                    // a member of the namespace `name`, or empty
  bool unpacks = false;                    // the target is a tuple, perhaps of one element
  std::vector<assignment_target> parts{};  // the targets of the tuple
};

struct parameter {
  std::string name;
  expression_ptr preset;  // the default value, or null if there is none: then it is undefined
};

struct plain_text {
  value text;
};
struct output {
  expression_ptr what;
};
struct branches {  // if, elif, else
  std::vector<std::pair<expression_ptr, block>> cases;
  block otherwise;
};
struct for_loop {
  assignment_target target;
  expression_ptr items, condition;  // `condition` may be null
  block body, otherwise;
};
struct assignment {
  assignment_target target;
  expression_ptr what;
};
struct block_assignment {  // {% set x | f %}...{% endset %}
  assignment_target target;
  expression_ptr filters;  // null, or filters whose innermost operand is null
  block body;
};
struct macro_definition {
  std::string name;
  std::vector<parameter> parameters;
  block body;
};
struct call_block {  // {% call(x) f() %}...{% endcall %}
  expression_ptr what;
  macro_definition caller;
};
struct filter_block {
  expression_ptr filters;
  block body;
};
struct with_block {
  std::vector<std::pair<assignment_target, expression_ptr>> names;
  block body;
};
struct break_loop {};
struct continue_loop {};

struct statement {
  using node = std::variant<plain_text, output, branches, for_loop, assignment, block_assignment, macro_definition, call_block,
                            filter_block, with_block, break_loop, continue_loop>;
  statement(position where, node what) : at(where), form(std::move(what)) {}

  position at;
  node form;
};

}  // namespace jinja
}  // namespace v0
}  // namespace lazyprune
