# SPDX-License-Identifier: MIT
# Makes one header of floors 0-2: lazyprune.hpp and all files that it includes. Each file stands once, before the files that include it.
# cmake -D ROOT=tree -D OUTPUT=lazyprune_single.hpp -P cmake/single_header.cmake
cmake_minimum_required(VERSION 3.25)

set(seen "")
set(standard "")
set(code "")

# Appends the header's code to `code`, after the code of the headers that it includes.
function(append_header header)
  if(header IN_LIST seen)
    return()
  endif()
  list(APPEND seen ${header})
  file(READ ${ROOT}/include/${header} text)
  string(REGEX MATCHALL "\n#include <[^>\n]*>" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "\n#include <(.*)>" "\\1" name ${include})
    if(name MATCHES "^lazyprune/")
      append_header(${name})
    else()
      list(APPEND standard ${name})
    endif()
  endforeach()
  string(REGEX REPLACE "\n(#include <[^>\n]*>|#pragma once)" "" text "${text}")
  string(REGEX REPLACE "^// SPDX[^\n]*\n" "" text "${text}")
  string(REGEX REPLACE "\n\n\n+" "\n\n" text "${text}")
  string(APPEND code "\n// ---- ${header} ----\n${text}")
  foreach(name IN ITEMS seen standard code)
    set(${name} "${${name}}" PARENT_SCOPE)
  endforeach()
endfunction()

append_header(lazyprune/lazyprune.hpp)
list(REMOVE_DUPLICATES standard)
list(SORT standard)
list(TRANSFORM standard REPLACE "(.+)" "#include <\\1>\n")
string(JOIN "" standard ${standard})
file(READ ${ROOT}/LICENSE license)
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REGEX REPLACE "\n" "\n// " license "${license}")
string(REGEX REPLACE "// \n" "//\n" license "${license}")
set(single "// SPDX-License-Identifier: MIT
// lazyprune, floors 0-2 (core, policies, sessions) in one file, generated from include/lazyprune. Do not include those headers beside it.
//
// ${license}
#pragma once

${standard}${code}")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "@single@" @ONLY) # writes only if the text has changed
