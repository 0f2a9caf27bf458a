# SPDX-License-Identifier: MIT
# The lines that README.md and examples/EMBEDDING.md show.
find_package(lazyprune 0.3 CONFIG REQUIRED COMPONENTS cpu text)   # after cmake --install; or FetchContent, or add_subdirectory
target_link_libraries(mine PRIVATE lazyprune::lazyprune)            # policies, session, registry: standard library only
target_link_libraries(mine PRIVATE lazyprune::cpu lazyprune::model)  # and the transformer: xsimd, OpenMP, threads
target_link_libraries(mine PRIVATE lazyprune::files lazyprune::text)  # and checkpoints (nlohmann/json); tokenizers and chats
target_link_libraries(mine PRIVATE lazyprune::eval)                  # and metrics and tasks
target_link_libraries(mine PRIVATE lazyprune::unicode)               # and regexes and normal forms for tokenizer.json (PCRE2, utf8proc)
target_link_libraries(mine PRIVATE lazyprune::c)                     # or the C library alone, after cmake --install
