# SPDX-License-Identifier: MIT
# Builds the engine in C several times, each time with one fault that compare --against must name. planted(name "from" "to" ...) replaces
# each "from" in examples/c_library/engine.c by its "to". Each "from" must occur there.

file(READ ${PROJECT_SOURCE_DIR}/examples/c_library/engine.c engine)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/c_library/engine.c)

function(planted name)
  set(code "${engine}")
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 1 ${last} 2)
    math(EXPR next "${i} + 1")
    string(REPLACE "${ARGV${i}}" "${ARGV${next}}" changed "${code}")
    if(changed STREQUAL code)
      message(FATAL_ERROR "planted_faults: ${name}: examples/c_library/engine.c does not have: ${ARGV${i}}")
    endif()
    set(code "${changed}")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/planted/${name}.c)
  file(CONFIGURE OUTPUT ${file} CONTENT "@code@" @ONLY)
  add_executable(planted_${name} ${file})
  target_link_libraries(planted_${name} PRIVATE lazyprune::c m)
  set_target_properties(planted_${name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE CXX
                                                   RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/planted)
  target_compile_options(planted_${name} PRIVATE ${LAZYPRUNE_COMPUTES})
  add_dependencies(lazyprune.tests.c planted_${name})
endfunction()
target_compile_definitions(lazyprune.tests.c PRIVATE LAZYPRUNE_PLANTED="${CMAKE_CURRENT_BINARY_DIR}/planted")

# The engine does not attend to a stored token at the layers that have the token's keys.
set(attend_from "static void attend(const sequence* s,")
set(attend_to "static int forgotten(const sequence* s, size_t layer, uint32_t t) {
  lazyprune_token token = LAZYPRUNE_TOKEN;
  must(lazyprune_session_get_token(s->session, t, &token));
  return token.place == LAZYPRUNE_STORED && token.frontier > layer;
}
static void attend(const sequence* s,")
set(score_from "p[seen] = dot / sqrt((double)m->head_dim);")
set(score_to "p[seen] = forgotten(s, layer, plan->active[seen]) ? -HUGE_VAL : dot / sqrt((double)m->head_dim);")
set(mark_from "s->touched[l * m->max_tokens + plan.active[i]] |= was_active;")
planted(dropped_early_key "${attend_from}" "${attend_to}" "${score_from}" "${score_to}"
        "${mark_from}" "if (!forgotten(s, l, plan.active[i])) ${mark_from}")
planted(hidden_early_key "${attend_from}" "${attend_to}" "${score_from}" "${score_to}") # the trace says that these tokens take part

# RoPE gets a wrong position for a revived row.
set(rope_key "rope(m, s->keys + at, m->kv_heads, plan.rows[r]);")
set(rope_query "rope(m, w.query, m->heads, plan.rows[r]);")
string(REPLACE "plan.rows[r])" "plan.rows[r] + (plan.sources[r].origin == LAZYPRUNE_STORED))" rope_key_next "${rope_key}")
string(REPLACE "plan.rows[r])" "plan.rows[r] + (plan.sources[r].origin == LAZYPRUNE_STORED))" rope_query_next "${rope_query}")
planted(next_position "${rope_key}" "${rope_key_next}" "${rope_query}" "${rope_query_next}")
set(shifted "plan.sources[r].origin == LAZYPRUNE_STORED ? (uint32_t)known - 1 : plan.rows[r])")
string(REPLACE "plan.rows[r])" "${shifted}" rope_key_last "${rope_key}")
string(REPLACE "plan.rows[r])" "${shifted}" rope_query_last "${rope_query}")
planted(last_position "${rope_key}" "${rope_key_last}" "${rope_query}" "${rope_query_last}")

# Revived rows are exchanged, either when they are read or when they are stored.
set(gather_from "const lazyprune_source source = plan.sources[r];")
planted(reversed_slots "${gather_from}" "lazyprune_source source = plan.sources[r];
      if (source.origin == LAZYPRUNE_STORED) { /* the one as far from the end as this is from the beginning */
        size_t before = 0, at = plan.rows_count;
        for (size_t i = 0; i < r; ++i) before += plan.sources[i].origin == LAZYPRUNE_STORED;
        for (++before; before > 0;) before -= plan.sources[--at].origin == LAZYPRUNE_STORED;
        source = plan.sources[at];
      }")
planted(reversed_spills "+ spill->slot * hidden,"
        "+ (spill->to == LAZYPRUNE_STORED ? spills.items[spills.count - 1 - i].slot : spill->slot) * hidden,")

# The trace says that one token is computed again in every later step.
planted(computed_twice "${mark_from}" "{
      ${mark_from}
      if (plan.active[i] == 5 && known > count) s->touched[l * m->max_tokens + 5] |= was_row;
    }")

# At every second layer, the policy is shown the attention of the previous layer.
planted(stale_scores "if (plan.rows_count - r <= queries) {" "if (plan.rows_count - r <= queries && l % 2 == 0) {")
