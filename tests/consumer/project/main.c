/* SPDX-License-Identifier: MIT */
/* The C library from a C program. */
#include <lazyprune/c/lazyprune.h>

int main(void) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* session;
  options.layers = 4;
  if (lazyprune_session_create(NULL, "lazyllm --stages 2:0.5", &options, &session).code != LAZYPRUNE_OK) return 1;
  lazyprune_session_free(session);
  return 0;
}
