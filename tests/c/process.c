/* SPDX-License-Identifier: MIT */
/*
 * Tests the C library in unusual processes: two copies of the library at once, a library that is loaded and closed again and again, a child
 * of fork(), threads with small stacks, and a locale with another decimal point. In each of them, sessions must plan as in an ordinary one.
 *
 *   process copies LIBRARY COPY     two files with the same content
 *   process reload|fork LIBRARY
 *   process stack LIBRARY BYTES     on a thread with a stack of this size
 *   process locale LIBRARY NAME     ends with 77 if there is no such locale
 */
#define _DEFAULT_SOURCE

#include <dlfcn.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lazyprune/c/lazyprune.h>

#define LAYERS 6
#define HEADS 3
#define KNOWN 160

static void expect(int fact, const char* what) {
  if (fact) return;
  printf("process: not as expected: %s\n", what);
  exit(1);
}

/* The library's functions. */
typedef struct {
  void* handle;
  lazyprune_status (*create)(const lazyprune_registry*, const char*, const lazyprune_session_options*, lazyprune_session**);
  void (*free)(lazyprune_session*);
  lazyprune_status (*text)(const lazyprune_registry*, const char*, const lazyprune_session_options*, char*, size_t, size_t*);
  lazyprune_status (*help)(const lazyprune_registry*, char*, size_t, size_t*);
  lazyprune_status (*begin)(lazyprune_session*, const lazyprune_request*, uint32_t*);
  lazyprune_status (*enter)(lazyprune_session*, uint32_t, lazyprune_plan*);
  lazyprune_status (*leave)(lazyprune_session*, const lazyprune_evidence*, lazyprune_spills*);
  lazyprune_status (*finish)(lazyprune_session*);
} library;

static void find(void* handle, const char* name, void* to) {
  void* const found = dlsym(handle, name);
  expect(found != NULL, name);
  memcpy(to, &found, sizeof found); /* C has no conversion from void* to a function pointer */
}

static library load(const char* path) {
  library l;
  l.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!l.handle) printf("%s\n", dlerror());
  expect(l.handle != NULL, "the library loads");
  find(l.handle, "lazyprune_session_create", &l.create);
  find(l.handle, "lazyprune_session_free", &l.free);
  find(l.handle, "lazyprune_policy_text", &l.text);
  find(l.handle, "lazyprune_policy_help", &l.help);
  find(l.handle, "lazyprune_step_begin", &l.begin);
  find(l.handle, "lazyprune_step_enter", &l.enter);
  find(l.handle, "lazyprune_step_leave", &l.leave);
  find(l.handle, "lazyprune_step_finish", &l.finish);
  return l;
}

static void ok(lazyprune_status status) {
  if (status.code != LAZYPRUNE_OK) printf("%s\n", status.message);
  expect(status.code == LAZYPRUNE_OK, "the call succeeds");
}

static lazyprune_session* make(const library* l) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* session = NULL;
  options.layers = LAYERS;
  ok(l->create(NULL, "lazyllm --stages 1:0.75,3:0.5", &options, &session));
  return session;
}

/* Runs a step with made-up attention. Returns a hash of the plans. */
static uint64_t step(const library* l, lazyprune_session* session, size_t tokens, uint32_t phase) {
  static _Thread_local float attention[HEADS * KNOWN];
  uint64_t hash = 7;
  uint32_t layers = 0, layer;
  lazyprune_request request = LAZYPRUNE_REQUEST;
  request.phase = phase;
  request.tokens = tokens;
  request.outputs = 1;
  ok(l->begin(session, &request, &layers));
  for (layer = 0; layer < layers; ++layer) {
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    lazyprune_evidence evidence = LAZYPRUNE_EVIDENCE;
    size_t i;
    ok(l->enter(session, layer, &plan));
    for (i = 0; i < plan.active_count; ++i) hash = hash * 31 + plan.active[i];
    for (i = 0; i < plan.rows_count; ++i) hash = hash * 31 + plan.rows[i];
    for (i = 0; i < HEADS * plan.active_count; ++i)
      attention[i] = (float)((plan.active[i % plan.active_count] * 2654435761u + i / plan.active_count * 97u + layer) % 1009u) / 1009.0f;
    evidence.kind = plan.wants;
    evidence.data = attention;
    evidence.data_count = HEADS * plan.active_count;
    evidence.stride = plan.active_count;
    evidence.heads = HEADS;
    ok(l->leave(session, &evidence, &spills));
    hash = hash * 31 + spills.count;
  }
  ok(l->finish(session));
  return hash;
}

static uint64_t prompt(const library* l, lazyprune_session* session) { return step(l, session, 120, LAZYPRUNE_PREFILL); }
static uint64_t answer(const library* l, lazyprune_session* session) {
  uint64_t hash = 0;
  int i;
  for (i = 0; i < 5; ++i) hash = hash * 31 + step(l, session, 1, LAZYPRUNE_DECODE);
  return hash;
}

/* Runs a prompt and an answer in a new session, and makes the other calls, a wrong one among them. */
static uint64_t all_calls(const library* l) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* const session = make(l);
  uint64_t hash = prompt(l, session);
  char text[4096];
  size_t length = 0;
  const char* c;
  hash = hash * 31 + answer(l, session);
  options.layers = LAYERS;
  ok(l->text(NULL, "lazyllm --stages 1:0.75,3:0.5 --scorer given_scores:scores=0.25/1.5", &options, text, sizeof text, &length));
  expect(strstr(text, "1:0.75,3:0.5") && strstr(text, "0.25/1.5"), "the policy's text has the numbers with a point");
  for (c = text; *c; ++c) hash = hash * 31 + (unsigned char)*c;
  ok(l->help(NULL, text, sizeof text, &length));
  for (c = text; *c; ++c) hash = hash * 31 + (unsigned char)*c;
  expect(l->finish(session).code == LAZYPRUNE_WRONG_ORDER, "a call out of order fails");
  l->free(session);
  return hash;
}

/* Checks that messages of numbers have a point. */
static void check_message(const library* l) {
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* session = NULL;
  lazyprune_request request = LAZYPRUNE_REQUEST;
  lazyprune_plan plan = LAZYPRUNE_PLAN;
  lazyprune_evidence evidence = LAZYPRUNE_EVIDENCE;
  lazyprune_spills spills = LAZYPRUNE_SPILLS;
  const float attention[] = {0.125f, 0.25f, 0.125f};
  lazyprune_status status;
  uint32_t layers;
  options.layers = 2;
  options.checks = LAZYPRUNE_CHECK_ATTENTION;
  ok(l->create(NULL, "lazyllm --stages 1:0.5", &options, &session));
  request.tokens = 3;
  request.outputs = 1;
  ok(l->begin(session, &request, &layers));
  ok(l->enter(session, 0, &plan));
  evidence.kind = plan.wants;
  evidence.data = attention;
  evidence.data_count = evidence.stride = 3;
  evidence.heads = 1;
  status = l->leave(session, &evidence, &spills);
  expect(status.code == LAZYPRUNE_BAD_INPUT && strstr(status.message, "0.5 "), status.message);
  l->free(session);
}

static void copies(const char* path, const char* copy, uint64_t expected) {
  const library a = load(path), b = load(copy);
  lazyprune_session *in_a, *in_b;
  lazyprune_status of_a, of_b;
  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  uint64_t found;
  expect(a.create != b.create, "the copies are two libraries");
  in_a = make(&a);
  in_b = make(&b);
  expect(prompt(&a, in_a) == prompt(&b, in_b), "sessions of both copies plan the same");
  found = answer(&b, in_b);
  expect(found == answer(&a, in_a), "sessions of both copies go on the same");
  options.layers = LAYERS;
  of_a = a.create(NULL, "no_such_policy", &options, &in_a);
  of_b = b.finish(in_b);
  expect(strstr(of_a.message, "no_such_policy") && of_b.code != LAZYPRUNE_OK && strcmp(of_a.message, of_b.message) != 0,
         "each copy keeps its own message");
  expect(dlclose(a.handle) == 0, "one copy can be closed");
  expect(all_calls(&b) == expected, "the other copy still works");
}

/* Returns the second number of /proc/self/statm: resident pages. */
/* The allocated bytes of the process; 0 if its C library does not tell. The resident memory would vary by 200 KiB from run to run. */
static size_t allocated(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 33))
  return mallinfo2().uordblks;
#else
  return 0;
#endif
}
static int lines_of(const char* path) {
  int lines = 0, c;
  FILE* const file = fopen(path, "r");
  expect(file != NULL, path);
  while ((c = getc(file)) != EOF) lines += c == '\n';
  fclose(file);
  return lines;
}
static int threads(void) {
  char line[256];
  int count = 0;
  FILE* const file = fopen("/proc/self/status", "r");
  expect(file != NULL, "/proc/self/status");
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Threads: %d", &count) == 1) break;
  fclose(file);
  return count;
}

static void reload(const char* path, uint64_t expected) {
  size_t bytes = 0;
  int lines = 0, i;
  for (i = 0; i < 100; ++i) {
    const library l = load(path);
    expect(all_calls(&l) == expected, "a library that was loaded again plans the same");
    expect(dlclose(l.handle) == 0, "the library can be closed");
    expect(dlopen(path, RTLD_NOW | RTLD_NOLOAD) == NULL, "a closed library is not loaded any more");
    if (i == 9) bytes = allocated(), lines = lines_of("/proc/self/maps");
  }
  expect(threads() == 1, "no thread is left");
  expect(lines_of("/proc/self/maps") <= lines, "no mapping is left");
  expect(allocated() <= bytes + 16384, "no memory is left"); /* the loader itself keeps less than 4 KiB */
}

static void forked(const char* path, uint64_t expected) {
  const library l = load(path);
  lazyprune_session* const session = make(&l);
  uint64_t found = prompt(&l, session);
  int status = -1;
  pid_t child;
  fflush(stdout);
  child = fork();
  found = found * 31 + answer(&l, session); /* both processes go on */
  expect(child >= 0, "there is a child");
  if (child == 0) {
    lazyprune_session* const fresh = make(&l);
    uint64_t again = prompt(&l, fresh);
    again = again * 31 + answer(&l, fresh);
    expect(again == found, "a session of the parent goes on in the child as a new one does");
    expect(all_calls(&l) == expected, "the library works in the child");
    fflush(stdout);
    _exit(0);
  }
  expect(waitpid(child, &status, 0) == child && status == 0, "the child ends well");
  expect(all_calls(&l) == expected, "the library works in the parent");
}

typedef struct {
  library l;
  uint64_t found;
} on_thread;
static void* call_all(void* given) {
  on_thread* const to = given;
  to->found = all_calls(&to->l);
  return NULL;
}

static void small_stack(const char* path, size_t bytes, uint64_t expected) {
  on_thread all;
  pthread_attr_t attributes;
  pthread_t thread;
  all.l = load(path);
  all.found = 0;
  expect(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, bytes) == 0, "the stack's size can be set");
  expect(pthread_create(&thread, &attributes, call_all, &all) == 0, "the thread starts");
  pthread_join(thread, NULL);
  expect(all.found == expected, "the small stack is enough");
}

/* The hash of all_calls in an ordinary process. */
static uint64_t ordinary(const char* path) {
  uint64_t found = 0;
  int ends[2];
  pid_t child;
  expect(pipe(ends) == 0, "there is a pipe");
  child = fork();
  if (child == 0) {
    const library l = load(path);
    found = all_calls(&l);
    _exit(write(ends[1], &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
  }
  close(ends[1]);
  expect(child > 0 && read(ends[0], &found, sizeof found) == (ssize_t)sizeof found, "an ordinary process ends well");
  waitpid(child, NULL, 0);
  close(ends[0]);
  return found;
}

int main(int count, char** words) {
  uint64_t expected;
  expect(count >= 4 || (count == 3 && (strcmp(words[1], "reload") == 0 || strcmp(words[1], "fork") == 0)), "CASE LIBRARY [ARGUMENT]");
  expected = ordinary(words[2]);
  if (strcmp(words[1], "copies") == 0) {
    copies(words[2], words[3], expected);
  } else if (strcmp(words[1], "reload") == 0) {
    reload(words[2], expected);
  } else if (strcmp(words[1], "fork") == 0) {
    forked(words[2], expected);
  } else if (strcmp(words[1], "stack") == 0) {
    small_stack(words[2], strtoul(words[3], NULL, 10), expected);
  } else if (strcmp(words[1], "locale") == 0) {
    const library l = load(words[2]);
    char half[8];
    if (!setlocale(LC_ALL, words[3])) {
      printf("skipped: needs the locale %s (locales)\n", words[3]);
      return 77;
    }
    snprintf(half, sizeof half, "%g", 0.5);
    expect(strcmp(half, "0.5") != 0, "the locale has another decimal point");
    expect(all_calls(&l) == expected, "the locale changes nothing");
    check_message(&l);
  } else {
    expect(0, "the case is one of copies, reload, fork, stack and locale");
  }
  printf("as expected\n");
  return 0;
}
