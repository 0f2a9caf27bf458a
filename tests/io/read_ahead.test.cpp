// SPDX-License-Identifier: MIT
#include <lazyprune/io/read_ahead.hpp>

#include <doctest/doctest.h>

#include <string>

#include <io/support.hpp>

TEST_CASE("what was asked for is there, and an end in the midst of it waits for nothing") {
  const lazyprune_test::temporary_folder folder;
  const std::string numbers(std::size_t{9} << 20, 'x');
  const lazyprune::mapped_file file(folder.write("weights", numbers));
  for (int asked = 0; asked < 4; ++asked) {
    lazyprune::read_ahead ahead;
    for (int i = 0; i < asked; ++i) ahead.ask(file, file.bytes().subspan(static_cast<std::size_t>(i) << 20));
    ahead.ask(file, {});
  }
  CHECK(file.text() == numbers);
}
