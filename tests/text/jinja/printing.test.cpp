// SPDX-License-Identifier: MIT
#include <lazyprune/text/jinja/printing.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "text/jinja/rendering.hpp"

using namespace lazyprune;
using jinja::real_text;
using lazyprune_test::rendered;
using lazyprune_test::runs;
using lazyprune_test::unsupported;

TEST_CASE("floats are printed as by Python's repr") {
  CHECK(real_text(1.0) == "1.0");
  CHECK(real_text(-0.0) == "-0.0");
  CHECK(real_text(0.1) == "0.1");
  CHECK(real_text(1e15) == "1000000000000000.0");
  CHECK(real_text(1e16) == "1e+16");
  CHECK(real_text(0.0001) == "0.0001");
  CHECK(real_text(0.00001) == "1e-05");
  CHECK(real_text(1.5e300) == "1.5e+300");
  CHECK(real_text(std::numeric_limits<double>::denorm_min()) == "5e-324");
  CHECK(real_text(INFINITY) == "inf");
  CHECK(real_text(-INFINITY) == "-inf");
  CHECK(real_text(NAN) == "nan");
}

TEST_CASE("repr quotes strings as Python does, and trusts only the template's own strings") {
  CHECK(rendered("{{ [x] }}", R"({"x": "it's"})") == R"(["it's"])");
  CHECK(rendered("{{ [x] }}", R"({"x": "it's \"so\"\\"})") == R"(['it\'s "so"\\'])");
  CHECK(rendered("{{ [x] }}", R"({"x": "a\n\t\r\u0007\u200b\ue000é"})") == "['a\\n\\t\\r\\x07\\u200b\\ue000\xc3\xa9']");
  CHECK(rendered("{{ x }}", R"({"x": {"a": [1, 2.0, true, null, {}], "b": []}})") == "{'a': [1, 2.0, True, None, {}], 'b': []}");
  CHECK(rendered("{{ (1,) }}{{ () }}") == "(1,)()");
  CHECK(runs("{{ [x, '<s>'] }}", R"({"x": "</s>"})") == "{['</s>', '}<s>{']}");
}

TEST_CASE("values that cannot be printed are refused by name") {
  CHECK(rendered("{{ range }}") == unsupported("t: line 1, column 4"));
  CHECK(rendered("{{ namespace() }}") == unsupported("t: line 1, column 13"));
  CHECK(rendered("{{ [1]|select }}") == unsupported("t: line 1, column 8"));
}
