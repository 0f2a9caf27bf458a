/* SPDX-License-Identifier: MIT */
/*
 * Checks the struct layouts of ABI 1 for pointers of 64 bits. Also checks that the header is C99 and needs no other include. A changed
 * layout breaks programs that are already compiled. Structs may only grow at their ends, and the existing lines of this file must stay.
 */
#include <lazyprune/c/lazyprune.h>

#define HOLDS(fact, name) typedef char name[(fact) ? 1 : -1]
#define AT(type, member, offset) HOLDS(offsetof(type, member) == (offset), type##_##member)

HOLDS(LAZYPRUNE_ABI == 1, abi);
HOLDS(sizeof(void*) == 8 && sizeof(size_t) == 8, pointers);

HOLDS(sizeof(lazyprune_status) == 16, status);
AT(lazyprune_status, code, 0);
AT(lazyprune_status, reserved, 4);
AT(lazyprune_status, message, 8);
HOLDS(sizeof(lazyprune_source) == 8, source);
AT(lazyprune_source, origin, 0);
AT(lazyprune_source, reserved, 1);
AT(lazyprune_source, index, 4);
HOLDS(sizeof(lazyprune_spill) == 12, spill);
AT(lazyprune_spill, row, 0);
AT(lazyprune_spill, slot, 4);
AT(lazyprune_spill, origin, 8);
AT(lazyprune_spill, to, 9);
AT(lazyprune_spill, reserved, 10);
HOLDS(sizeof(lazyprune_probe) == 8, probe);
AT(lazyprune_probe, head, 0);
AT(lazyprune_probe, over_queries, 4);

HOLDS(sizeof(lazyprune_evidence) >= 200, evidence);
AT(lazyprune_evidence, kind, 4);
AT(lazyprune_evidence, data, 8);
AT(lazyprune_evidence, data_count, 16);
AT(lazyprune_evidence, stride, 24);
AT(lazyprune_evidence, heads, 32);
AT(lazyprune_evidence, queries, 40);
AT(lazyprune_evidence, kv_heads, 48);
AT(lazyprune_evidence, head_dim, 56);
AT(lazyprune_evidence, hidden, 64);
AT(lazyprune_evidence, values, 72);
AT(lazyprune_evidence, values_count, 80);
AT(lazyprune_evidence, values_stride, 88);
AT(lazyprune_evidence, ids, 96);
AT(lazyprune_evidence, ids_count, 104);
AT(lazyprune_evidence, query, 112);
AT(lazyprune_evidence, query_count, 120);
AT(lazyprune_evidence, query_stride, 128);
AT(lazyprune_evidence, keys, 136);
AT(lazyprune_evidence, keys_count, 144);
AT(lazyprune_evidence, keys_stride, 152);
AT(lazyprune_evidence, key_slots, 160);
AT(lazyprune_evidence, key_slots_count, 168);
AT(lazyprune_evidence, chosen, 176);
AT(lazyprune_evidence, chosen_count, 184);
AT(lazyprune_evidence, chosen_scores, 192);

HOLDS(sizeof(lazyprune_shown) >= 80, shown);
AT(lazyprune_shown, done, 4);
AT(lazyprune_shown, positions, 8);
AT(lazyprune_shown, active, 16);
AT(lazyprune_shown, rows, 24);
AT(lazyprune_shown, rows_count, 32);
AT(lazyprune_shown, evidence, 40);
AT(lazyprune_shown, memory, 48);
AT(lazyprune_shown, known, 56);
AT(lazyprune_shown, message, 64);
AT(lazyprune_shown, message_room, 72);

HOLDS(sizeof(lazyprune_scorer) >= 48, scorer);
AT(lazyprune_scorer, wants, 4);
AT(lazyprune_scorer, every_layer, 8);
AT(lazyprune_scorer, window, 12);
AT(lazyprune_scorer, over_heads, 16);
AT(lazyprune_scorer, reserved, 20);
AT(lazyprune_scorer, score, 24);
AT(lazyprune_scorer, user, 32);
AT(lazyprune_scorer, destroy, 40);

HOLDS(sizeof(lazyprune_layer) >= 48, layer);
AT(lazyprune_layer, done, 4);
AT(lazyprune_layer, layers, 8);
AT(lazyprune_layer, phase, 12);
AT(lazyprune_layer, active, 16);
AT(lazyprune_layer, known, 24);
AT(lazyprune_layer, message, 32);
AT(lazyprune_layer, message_room, 40);

HOLDS(sizeof(lazyprune_schedule) >= 56, schedule);
AT(lazyprune_schedule, sees_scores, 4);
AT(lazyprune_schedule, first, 8);
AT(lazyprune_schedule, reserved, 12);
AT(lazyprune_schedule, keep, 16);
AT(lazyprune_schedule, user, 24);
AT(lazyprune_schedule, destroy, 32);
AT(lazyprune_schedule, after, 40);
AT(lazyprune_schedule, after_count, 48);

HOLDS(sizeof(lazyprune_session_options) >= 48, session_options);
AT(lazyprune_session_options, layers, 4);
AT(lazyprune_session_options, max_tokens, 8);
AT(lazyprune_session_options, attention_after, 16);
AT(lazyprune_session_options, attention_after_count, 24);
AT(lazyprune_session_options, scratch, 32);
AT(lazyprune_session_options, checks, 40);
AT(lazyprune_session_options, reserved, 44);

HOLDS(sizeof(lazyprune_session_state) >= 56, session_state);
AT(lazyprune_session_state, layers, 4);
AT(lazyprune_session_state, known, 8);
AT(lazyprune_session_state, slots, 16);
AT(lazyprune_session_state, stored, 24);
AT(lazyprune_session_state, waiting_slots, 32);
AT(lazyprune_session_state, waiting, 40);
AT(lazyprune_session_state, lost, 48);

HOLDS(sizeof(lazyprune_token) >= 32, token);
AT(lazyprune_token, frontier, 4);
AT(lazyprune_token, place, 8);
AT(lazyprune_token, slot, 12);
AT(lazyprune_token, lost, 16);
AT(lazyprune_token, gone, 20);
AT(lazyprune_token, score, 24);
AT(lazyprune_token, reserved, 28);

HOLDS(sizeof(lazyprune_statistics) >= 56, statistics);
AT(lazyprune_statistics, layers, 4);
AT(lazyprune_statistics, steps, 8);
AT(lazyprune_statistics, rows, 16);
AT(lazyprune_statistics, dense_rows, 24);
AT(lazyprune_statistics, revived, 32);
AT(lazyprune_statistics, prefill_rows, 40);
AT(lazyprune_statistics, prefill_dense_rows, 48);

HOLDS(sizeof(lazyprune_request) >= 24, request);
AT(lazyprune_request, phase, 4);
AT(lazyprune_request, tokens, 8);
AT(lazyprune_request, outputs, 16);

HOLDS(sizeof(lazyprune_plan) >= 104, plan);
AT(lazyprune_plan, layer, 4);
AT(lazyprune_plan, active, 8);
AT(lazyprune_plan, active_count, 16);
AT(lazyprune_plan, rows, 24);
AT(lazyprune_plan, sources, 32);
AT(lazyprune_plan, rows_count, 40);
AT(lazyprune_plan, finish, 48);
AT(lazyprune_plan, wants, 56);
AT(lazyprune_plan, window, 60);
AT(lazyprune_plan, over_heads, 64);
AT(lazyprune_plan, reserved, 68);
AT(lazyprune_plan, probes, 72);
AT(lazyprune_plan, probes_count, 80);
AT(lazyprune_plan, probe_rows, 88);
AT(lazyprune_plan, quota, 96);
AT(lazyprune_plan, quota_page, 104);
AT(lazyprune_plan, needs_scores, 108);
AT(lazyprune_plan, row_is_score, 112);
AT(lazyprune_plan, stores_dropped, 116);

HOLDS(sizeof(lazyprune_layer_counts) == 32, layer_counts);
AT(lazyprune_layer_counts, layer, 0);
AT(lazyprune_layer_counts, chooses, 4);
AT(lazyprune_layer_counts, active, 8);
AT(lazyprune_layer_counts, finish, 16);
AT(lazyprune_layer_counts, kept, 24);

HOLDS(sizeof(lazyprune_spills) >= 24, spills);
AT(lazyprune_spills, margin, 4);
AT(lazyprune_spills, items, 8);
AT(lazyprune_spills, count, 16);
