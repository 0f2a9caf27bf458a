/* SPDX-License-Identifier: MIT */
/* A C program with a scorer of its own in a session. */
#include <lazyprune/c/lazyprune.h>

/* A scorer: the newer a token, the more important it is. */
static int32_t newest(void* user, const lazyprune_shown* shown, float* scores) {
  (void)user;
  for (size_t i = 0; i < shown->active; ++i) scores[i] = (float)shown->positions[i];
  return LAZYPRUNE_OK;
}

static lazyprune_status make_session(lazyprune_session** session) {
  lazyprune_registry* registry;
  lazyprune_status status = lazyprune_registry_create(&registry);
  if (status.code != LAZYPRUNE_OK) return status;
  lazyprune_scorer scorer = LAZYPRUNE_SCORER;
  scorer.wants = LAZYPRUNE_NOTHING; /* positions are enough */
  scorer.score = newest;
  status = lazyprune_registry_add_scorer(registry, "newest", &scorer);
  if (status.code == LAZYPRUNE_OK) {
    lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
    options.layers = 4;
    status = lazyprune_session_create(registry, "lazyllm --stages 2:0.5 --scorer newest", &options, session);
  }
  lazyprune_registry_free(registry); /* the session no longer needs it */
  return status;
}

int main(void) {
  lazyprune_session* session;
  lazyprune_request request = LAZYPRUNE_REQUEST;
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  lazyprune_spills spills = LAZYPRUNE_SPILLS;
  uint32_t layers = 0;
  if (make_session(&session).code != LAZYPRUNE_OK) return 1;
  request.tokens = 8;
  request.outputs = 1;
  int wrong = lazyprune_step_begin(session, &request, &layers).code != LAZYPRUNE_OK;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    wrong |= lazyprune_step_enter(session, layer, &plan).code != LAZYPRUNE_OK;
    wrong |= lazyprune_step_leave(session, NULL, &spills).code != LAZYPRUNE_OK;
  }
  wrong |= lazyprune_step_finish(session).code != LAZYPRUNE_OK;
  lazyprune_session_free(session);
  return wrong || plan.active_count != 4;
}
