/* SPDX-License-Identifier: MIT */
/*
 * lazyprune for everything that can call C: the pruning session (LazyLLM, arXiv 2407.14057). The session plans; the engine computes and
 * owns all memory. The library is made of one file, examples/c_library/lazyprune.cpp. The C++ headers in include/lazyprune/session/
 * (step_machine.hpp, step.hpp) say in full what each call means; examples/EMBEDDING.md is the guide.
 *
 *   lazyprune_session* session;
 *   lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
 *   options.layers = 32;
 *   lazyprune_session_create(NULL, "lazyllm --stages 9:0.7,19:0.5", &options, &session);
 *
 *   lazyprune_request request = LAZYPRUNE_REQUEST;           a forward pass over `tokens` new ones
 *   request.tokens = tokens;
 *   request.outputs = 1;                                     0 for every piece of a prompt but its last
 *   lazyprune_step_begin(session, &request, &layers);
 *   for (layer = 0; layer < layers; ++layer) {
 *     lazyprune_step_enter(session, layer, &plan);           plan.sources[r] says where the input of row r lies: gather it;
 *                                                            compute the tokens at plan.rows[r]; attend over those at plan.active
 *     lazyprune_step_leave(session, &evidence, &spills);     show what plan.wants asks for; then save spills.items
 *   }
 *   lazyprune_step_finish(session);
 *
 * Every call returns a status. Its message is "" or one line, and is the calling thread's until its next call that fails. A call that fails
 * has changed nothing, with one exception: where a callback fails, the step in progress can only be given up (lazyprune_session_abandon).
 * No exception leaves the library, and none may enter it: a callback returns, and neither throws nor jumps, nor calls into the session that
 * it is called from.
 *
 * Structs that have an initializer here begin with their size, which it writes. The library reads and writes no more of such a struct than
 * its caller knows, so that a program goes on working with libraries that know more. Within one LAZYPRUNE_ABI these structs only grow, at
 * their ends. So do the structs that callbacks are shown (lazyprune_shown, lazyprune_layer): a callback reads a later member only where
 * struct_size covers it. The others (lazyprune_status, lazyprune_source, lazyprune_spill, lazyprune_probe) stay as they are. Members named
 * `reserved` fill a gap: a caller leaves them 0 where it writes the struct, and reads nothing from them where the library does.
 *
 * Threads: a registry may be used by several threads once nothing is added to it. A session, and the step in it, belong to one thread at a
 * time; different sessions are independent, but for those that were created with one scratch, which belong to one thread all together. A
 * clone shares its session's scratch. Callbacks come on the thread of the call that needs them, of sessions of several threads at once.
 */
#ifndef LAZYPRUNE_C_LAZYPRUNE_H
#define LAZYPRUNE_C_LAZYPRUNE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(LAZYPRUNE_MAKES_C_LIBRARY)
#define LAZYPRUNE_API __declspec(dllexport)
#elif defined(_WIN32)
#define LAZYPRUNE_API __declspec(dllimport)
#elif defined(__GNUC__)
#define LAZYPRUNE_API __attribute__((visibility("default")))
#else
#define LAZYPRUNE_API
#endif

#define LAZYPRUNE_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

enum {
  LAZYPRUNE_OK = 0,
  LAZYPRUNE_BAD_INPUT = 1,   /* an argument is wrong */
  LAZYPRUNE_WRONG_ORDER = 2, /* a call came before another that has to come first */
  LAZYPRUNE_NO_ROOM = 3,     /* more tokens than were reserved */
  LAZYPRUNE_NO_MEMORY = 4,
  LAZYPRUNE_UNSUPPORTED = 5, /* sound, but this library does not have it */
  LAZYPRUNE_INTERNAL = 6,    /* a defect of the library */
  LAZYPRUNE_CALLBACK = 7     /* a callback failed; it may return any other code too, which is then the call's */
};

typedef struct lazyprune_status {
  int32_t code;
  uint32_t reserved;
  const char* message; /* "PLACE: expected ..., found ..." */
} lazyprune_status;

/* "0.2.0", and the LAZYPRUNE_ABI that the library was made for. */
LAZYPRUNE_API const char* lazyprune_version(void);
LAZYPRUNE_API uint32_t lazyprune_abi(void);

/* ---- words ---- */

enum { LAZYPRUNE_PREFILL = 0, LAZYPRUNE_DECODE = 1 };

/* Where the input of a row comes from, and where a spill goes. */
enum {
  LAZYPRUNE_EMBEDDING = 0, /* look the token at position `index` up in the embedding table */
  LAZYPRUNE_CARRIED = 1,   /* row `index` of the layer before, in this step */
  LAZYPRUNE_STORED = 2,    /* slot `index` of the aux store: the row is revived */
  LAZYPRUNE_WAITING = 3    /* slot `index` of the rows that wait where a chunk ended */
};

/* What a scorer has to be shown. */
enum {
  LAZYPRUNE_NOTHING = 0,
  LAZYPRUNE_ATTENTION = 1, /* the query token's probabilities: data (heads, active), rows `stride` apart */
  LAZYPRUNE_WINDOW = 2,    /* those of the last queries: data (queries, heads, active), 0 where a query does not see a token */
  LAZYPRUNE_KEYS = 3,      /* cached keys after RoPE: data (active, kv_heads, head_dim), tokens `stride` apart */
  LAZYPRUNE_VALUES = 4,    /* as ATTENTION, and values (active, kv_heads, head_dim), tokens `values_stride` apart */
  LAZYPRUNE_HIDDEN = 5,    /* what the layer put out: data (rows, hidden), rows `stride` apart */
  LAZYPRUNE_IDS = 6,       /* the text: ids (known), by position */
  LAZYPRUNE_PROBES = 7     /* for later: no scorer of this version wants it. data (probes, active): what plan.probes names */
};

/* What a scorer reads of attention's heads: each of them, or no more than their mean or their maximum. */
enum { LAZYPRUNE_EACH = 0, LAZYPRUNE_MEAN = 1, LAZYPRUNE_MAX = 2 };

/* A schedule's answer where it does not prune. */
#define LAZYPRUNE_EVERYTHING SIZE_MAX

/* The input of one row: `origin` is one of the above, `index` is a place in it. */
typedef struct lazyprune_source {
  uint8_t origin;
  uint8_t reserved[3];
  uint32_t index;
} lazyprune_source;

/* A hidden state to save. From CARRIED, `row` is an index into plan.rows of the layer just left, and the hidden state is what that layer
   put out for it, the next layer's input. From WAITING, `row` is a slot of the rows that wait. It goes to slot `slot` of `to`, STORED or
   WAITING. Keep waiting rows as they were computed; stored rows may be rounded. */
typedef struct lazyprune_spill {
  uint32_t row;
  uint32_t slot;
  uint8_t origin;
  uint8_t to;
  uint8_t reserved[2];
} lazyprune_spill;

/* For later: one row of attention that a scorer wants of the layer entered. */
typedef struct lazyprune_probe {
  uint32_t head;         /* query head, from 0 */
  uint32_t over_queries; /* LAZYPRUNE_LAST, LAZYPRUNE_MEAN or LAZYPRUNE_MAX over the last plan.probe_rows rows */
} lazyprune_probe;
enum { LAZYPRUNE_LAST = 0 };

/* Evidence, in float. Query head h reads key head h * kv_heads / heads.
   Strides count floats, not bytes. Counts say how many numbers a pointer points at, so that the library can refuse an array that is too
   short for the other members; 0: not checked. Numbers that are not finite are BAD_INPUT, with the token's position. */
typedef struct lazyprune_evidence {
  uint32_t struct_size;
  uint32_t kind; /* what plan.wants says */
  const float* data;
  size_t data_count;
  size_t stride;
  size_t heads;   /* ATTENTION, WINDOW, VALUES: query heads */
  size_t queries; /* WINDOW: plan.window of them, the last one is the query token */
  size_t kv_heads;
  size_t head_dim;
  size_t hidden;
  const float* values;
  size_t values_count;
  size_t values_stride;
  const uint32_t* ids;
  size_t ids_count; /* the tokens known; always checked */
  /* For engines whose attention is fused and yields no probabilities. Where `data` is null, ATTENTION, WINDOW and VALUES are computed from
     the queries (queries, heads, head_dim), of ATTENTION and VALUES one, and the keys (slots, kv_heads, head_dim), both after RoPE:
     softmax of q.k / sqrt(head_dim). Scale the query where the model does otherwise. It costs one pass over the active keys a query, and
     room for the probabilities, which the session keeps. */
  const float* query;
  size_t query_count;
  size_t query_stride; /* between queries; 0: heads * head_dim */
  const float* keys;
  size_t keys_count;
  size_t keys_stride;        /* between slots; 0: kv_heads * head_dim */
  const uint32_t* key_slots; /* (active) where each active token's key lies; null: token i of the active ones in slot i */
  size_t key_slots_count;
  /* For later: a kept set in the place of `data`, by engines that select on their device. `chosen` (chosen_count) are indices into
     plan.active, ascending, plan.quota of them; `chosen_scores` (active) are the scores that they were chosen by. This version takes none:
     plan.quota is 0, and a set is UNSUPPORTED. */
  const uint32_t* chosen;
  size_t chosen_count;
  const float* chosen_scores;
} lazyprune_evidence;
#define LAZYPRUNE_EVIDENCE \
  { sizeof(lazyprune_evidence), 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, NULL }

/* ---- policies of one's own ---- */

/* Policies are chosen by their text, as the program's flags spell it: "lazyllm --stages 9:0.7". A registry has the library's own, and a
   user's beside them, under a name that the text then uses: "lazyllm --scorer mine". Scorers and schedules can be a user's; selectors,
   stores and presets are the library's.

   Callbacks return a code: LAZYPRUNE_OK, or what went wrong, LAZYPRUNE_CALLBACK in most languages. They may write why into `message`, one
   line of at most `message_room` bytes with its 0. Where a callback fails, nothing is dropped, the call that needed it returns the
   callback's code and message, and the step can only be given up (lazyprune_session_abandon, or reset). */
typedef struct lazyprune_registry lazyprune_registry;

/* What a scorer is shown, valid for the call. */
typedef struct lazyprune_shown {
  uint32_t struct_size;
  uint32_t done;             /* layers that are done; the last of them gave the evidence */
  const uint32_t* positions; /* (active), ascending; the last one is the query token */
  size_t active;
  const uint32_t* rows; /* (rows_count) HIDDEN: the positions of its rows, ascending */
  size_t rows_count;
  const lazyprune_evidence* evidence; /* null where the scorer wants NOTHING */
  float* memory;                      /* (known), by position: of a scorer of every layer, zeroed when the sequence starts */
  size_t known;                       /* 0 but for IDS, NOTHING and scorers of every layer */
  char* message;                      /* (message_room) "" */
  size_t message_room;
} lazyprune_shown;

typedef struct lazyprune_scorer {
  uint32_t struct_size;
  uint32_t wants;       /* evidence; NOTHING: positions are enough, and layer 0 can be pruned */
  uint32_t every_layer; /* not 0: after every layer but the last, and memory */
  uint32_t window;      /* WINDOW: queries, at least 1 */
  uint32_t over_heads;  /* ATTENTION, WINDOW: all that it reads of the heads; plans pass it on */
  uint32_t reserved;    /* 0 */
  /* Writes the scores (active): larger is more important. Tokens that the step requires (its outputs) stay first, whatever their scores.
     The others go by their scores. Scores of +infinity count towards the number of tokens kept like any other, and among them the later
     position wins; NaN is the least score. */
  int32_t (*score)(void* user, const lazyprune_shown* shown, float* scores);
  void* user; /* shared by all sessions: what belongs to one sequence goes into `memory` */
  /* Called once, when the registry and the last session that has the scorer are freed, on the thread that frees them; not where adding
     the scorer failed. Null is allowed. */
  void (*destroy)(void* user);
} lazyprune_scorer;
#define LAZYPRUNE_SCORER \
  { sizeof(lazyprune_scorer), 0, 0, 0, 0, 0, NULL, NULL, NULL }

typedef struct lazyprune_layer {
  uint32_t struct_size;
  uint32_t done;   /* layers that are done: the answer decides who enters layer `done` */
  uint32_t layers; /* of the model */
  uint32_t phase;
  size_t active; /* tokens that took part in the layer just done */
  size_t known;  /* tokens of the sequence, pruned ones included */
  char* message; /* (message_room) "" */
  size_t message_room;
} lazyprune_layer;

typedef struct lazyprune_schedule {
  uint32_t struct_size;
  uint32_t sees_scores; /* not 0: `scores` (active) come with every question; else they are null */
  /* The least number of layers done at which it prunes, in any step: chunks of a prompt run so many layers. `keep` answers EVERYTHING
     before. 0 costs speed, never truth. */
  uint32_t first;
  uint32_t reserved; /* 0 */
  /* Writes how many of the active tokens go on into `kept`, which holds EVERYTHING. */
  int32_t (*keep)(void* user, const lazyprune_layer* layer, const float* scores, size_t* kept);
  void* user;
  void (*destroy)(void* user); /* as a scorer's */
  /* The numbers of layers done after which it prunes, ascending (after_count): `keep` is asked there alone. Null: it may prune after any
     number from `first` on. A session whose layers see windows (options.attention_after) takes no schedule that could prune elsewhere. */
  const uint32_t* after;
  size_t after_count;
} lazyprune_schedule;
#define LAZYPRUNE_SCHEDULE \
  { sizeof(lazyprune_schedule), 0, 0, 0, NULL, NULL, NULL, NULL, 0 }

/* A registry of the library's policies. Sessions copy what they use of it. */
LAZYPRUNE_API lazyprune_status lazyprune_registry_create(lazyprune_registry** out);
LAZYPRUNE_API void lazyprune_registry_free(lazyprune_registry* registry); /* null is allowed */
/* Names are of lower-case letters, digits and underscores; bad_input where one of the kind has that name. */
LAZYPRUNE_API lazyprune_status lazyprune_registry_add_scorer(lazyprune_registry* registry, const char* name,
                                                             const lazyprune_scorer* scorer);
LAZYPRUNE_API lazyprune_status lazyprune_registry_add_schedule(lazyprune_registry* registry, const char* name,
                                                               const lazyprune_schedule* schedule);

/* Selection's scratch, about 28 bytes a token, that the sessions of one thread may share. */
typedef struct lazyprune_scratch lazyprune_scratch;
LAZYPRUNE_API lazyprune_status lazyprune_scratch_create(lazyprune_scratch** out);
LAZYPRUNE_API void lazyprune_scratch_free(lazyprune_scratch* scratch); /* null is allowed; its sessions keep what they need */

/* ---- sessions ---- */

typedef struct lazyprune_session lazyprune_session;

typedef struct lazyprune_session_options {
  uint32_t struct_size;
  uint32_t layers;   /* of the model */
  size_t max_tokens; /* reserved at once, and from then on a limit: a step beyond it is NO_ROOM. 0: grows with the sequence */
  /* Where layers that see a window stand between layers that see all: after so many layers tokens may be dropped by attention, ascending;
     null: after any. */
  const uint32_t* attention_after;
  size_t attention_after_count;
  lazyprune_scratch* scratch; /* null: the session's own */
  uint32_t checks;            /* LAZYPRUNE_CHECK_ATTENTION, or 0 */
  uint32_t reserved;          /* 0 */
} lazyprune_session_options;
#define LAZYPRUNE_SESSION_OPTIONS \
  { sizeof(lazyprune_session_options), 0, 0, NULL, 0, NULL, 0, 0 }

/* While an engine is written: lazyprune_step_leave refuses probabilities that are below 0, whose rows do not sum to 1 within 2 %, or that
   are not 0 where a query of a window does not see the token. It finds logits in their place, wrong strides and wrong numbers of heads.
   Leave it out where rows of attention sum to less (attention sinks), or where something else is shown in their place. */
enum { LAZYPRUNE_CHECK_ATTENTION = 1 };

/* `policy`: a preset's name, then flags: "lazyllm", "lazyllm_blocks --stages 15:0.3", "custom --schedule mine --scorer key_norm". Where no
   name stands there, or "custom", what no flag says is lazyllm's. A null registry is the library's own.
   The library knows no model by name: without --stages, "lazyllm" has the paper's stages, for a model of so many layers. `lazyprune run`
   takes the stages that are known for its model instead. Name the stages to have the same. */
LAZYPRUNE_API lazyprune_status lazyprune_session_create(const lazyprune_registry* registry, const char* policy,
                                                        const lazyprune_session_options* options, lazyprune_session** out);
LAZYPRUNE_API void lazyprune_session_free(lazyprune_session* session); /* null is allowed */

/* All flags of the policy, written out for a model: as many bytes as there is `room` for, with a 0 at their end; `length` is that of the
   whole text, without the 0. */
LAZYPRUNE_API lazyprune_status lazyprune_policy_text(const lazyprune_registry* registry, const char* policy,
                                                     const lazyprune_session_options* options, char* out, size_t room, size_t* length);

/* What a registry knows, a kind a line: presets, scorers, schedules, selectors and stores, with the keys that they take. */
LAZYPRUNE_API lazyprune_status lazyprune_policy_help(const lazyprune_registry* registry, char* out, size_t room, size_t* length);

/* Between steps; the rest of this section, too, where nothing else is said. */
LAZYPRUNE_API lazyprune_status lazyprune_session_clone(const lazyprune_session* session, lazyprune_session** out);
LAZYPRUNE_API lazyprune_status lazyprune_session_reserve(lazyprune_session* session, size_t max_tokens); /* as options.max_tokens */
LAZYPRUNE_API lazyprune_status lazyprune_session_reset(lazyprune_session* session);                      /* at any time; statistics too */

/* At any time: gives the step in progress up, and forgets its new tokens. Older tokens are lost (no later step can compute more of them)
   where their row was carried from the layer before when the step stopped, and where it was in `spills` of the layer last left: spills
   count as saved when the next layer is entered. Rows that were to leave their waiting slots go on waiting there. The engine takes back the
   keys and values of a layer that was entered and not left. */
LAZYPRUNE_API lazyprune_status lazyprune_session_abandon(lazyprune_session* session);

/* Forgets the tokens from position `tokens` on: for drafts that were rejected. Nothing is undone of what their steps did to the tokens that
   stay: who was dropped, lost or computed further remains so. To ask a second question of one text, clone before the first. */
LAZYPRUNE_API lazyprune_status lazyprune_session_truncate(lazyprune_session* session, size_t tokens);

/* Takes in `tokens` more at the end of the sequence, whose keys and values the engine has at all layers. Allowed after tokens too, also
   after chunks: the session asks nothing about how those keys were computed. */
LAZYPRUNE_API lazyprune_status lazyprune_session_adopt(lazyprune_session* session, size_t tokens);

/* A session without tokens goes on from where `other`, which has read chunks alone, stands: one document, many ways to prune it. */
LAZYPRUNE_API lazyprune_status lazyprune_session_take_over(lazyprune_session* session, const lazyprune_session* other);
/* The layers that a chunk of that phase runs. */
LAZYPRUNE_API lazyprune_status lazyprune_session_chunk_layers(const lazyprune_session* session, uint32_t phase, uint32_t* layers);

typedef struct lazyprune_session_state {
  uint32_t struct_size;
  uint32_t layers;
  size_t known;         /* tokens */
  size_t slots;         /* rows that the aux store's memory needs: slots ever in use at once */
  size_t stored;        /* in use now */
  size_t waiting_slots; /* the same of the rows that wait */
  size_t waiting;
  size_t lost;
} lazyprune_session_state;
#define LAZYPRUNE_SESSION_STATE \
  { sizeof(lazyprune_session_state), 0, 0, 0, 0, 0, 0, 0 }
/* At any time; so is what follows. */
LAZYPRUNE_API lazyprune_status lazyprune_session_get_state(const lazyprune_session* session, lazyprune_session_state* out);

typedef struct lazyprune_token {
  uint32_t struct_size;
  uint32_t frontier; /* the layers that have its keys and values */
  uint32_t place;    /* STORED or WAITING, in `slot`; else CARRIED */
  uint32_t slot;
  uint32_t lost; /* not 0: its hidden state is gone, and its frontier stays */
  uint32_t gone; /* not 0: left out of every plan */
  float score;   /* when it was last dropped */
  uint32_t reserved;
} lazyprune_token;
#define LAZYPRUNE_TOKEN \
  { sizeof(lazyprune_token), 0, 0, 0, 0, 0, 0.0f, 0 }
LAZYPRUNE_API lazyprune_status lazyprune_session_get_token(const lazyprune_session* session, uint32_t position, lazyprune_token* out);

typedef struct lazyprune_statistics {
  uint32_t struct_size;
  uint32_t layers;
  uint64_t steps;
  uint64_t rows;       /* computed; one row is one token in one layer */
  uint64_t dense_rows; /* what the dense model computes in the same steps */
  uint64_t revived;
  const size_t* prefill_rows;       /* (layers), of the prefill steps; valid until the session is used */
  const size_t* prefill_dense_rows; /* (layers) */
} lazyprune_statistics;
#define LAZYPRUNE_STATISTICS \
  { sizeof(lazyprune_statistics), 0, 0, 0, 0, 0, NULL, NULL }
LAZYPRUNE_API lazyprune_status lazyprune_session_get_statistics(const lazyprune_session* session, lazyprune_statistics* out);

/* Tokens that no later plan contains: those that came since the last begin, ascending, valid until the session is next changed. Their keys
   and values, and their pages, can be freed. */
LAZYPRUNE_API lazyprune_status lazyprune_session_get_losses(const lazyprune_session* session, const uint32_t** positions, size_t* count);

/* ---- one step ---- */

typedef struct lazyprune_request {
  uint32_t struct_size;
  uint32_t phase;
  size_t tokens; /* new ones, at least 1, at the end of the sequence */
  /* Has no default, so that no piece of a prompt is pruned by its own last token because a line was forgotten.
     k >= 1: the last k new tokens are required at every layer and finished by the last one; the very last one scores. 1 for a prompt's last
     piece and for a generated token, k for k - 1 drafts to be verified.
     0: a chunk, a piece of a prompt of which more follows. It has no query, so that nothing is scored or dropped; its rows wait before the
     first layer that could prune, and a later step with outputs takes them up. */
  size_t outputs;
} lazyprune_request;
#define LAZYPRUNE_OUTPUTS_UNSET SIZE_MAX
#define LAZYPRUNE_REQUEST \
  { sizeof(lazyprune_request), LAZYPRUNE_PREFILL, 0, LAZYPRUNE_OUTPUTS_UNSET }

/* Steps come in any order. A sequence may begin with a decode step. A chunk may follow a finished prompt: the next turn of a conversation
   is read so, and its rows wait like those of the first. The phase says what the policy may do, and where statistics count the rows. */

/* Whether begin would take the request: for batches, whose requests are all checked before the first step begins. */
LAZYPRUNE_API lazyprune_status lazyprune_step_check(const lazyprune_session* session, const lazyprune_request* request);

/* `layers`: those of this step. */
LAZYPRUNE_API lazyprune_status lazyprune_step_begin(lazyprune_session* session, const lazyprune_request* request, uint32_t* layers);

/* One layer. The arrays are valid until the layer is left. */
typedef struct lazyprune_plan {
  uint32_t struct_size;
  uint32_t layer;
  const uint32_t* active; /* (active_count) positions, ascending: the tokens that take part; all have keys and values here, or are rows */
  size_t active_count;
  const uint32_t* rows; /* (rows_count) positions, ascending: the tokens to compute; each attends to the active tokens up to itself */
  const lazyprune_source* sources; /* (rows_count) where the input of each row lies */
  size_t rows_count;
  size_t finish;   /* so many of the last rows need the layer's output, the others only keys and values: all of them (rows_count) but in the
                      model's last layer, where it is the request's outputs */
  uint32_t wants;  /* the evidence that lazyprune_step_leave has to be given */
  uint32_t window; /* WINDOW: queries */
  /* ATTENTION, WINDOW: all that the scorer reads of the heads. Evidence of one head that holds it does as well: so much less to bring from
     a device. */
  uint32_t over_heads;
  uint32_t reserved;
  /* For later, null and 0 in this version. PROBES: the rows of attention (probes_count) that the scorer wants at this layer, each over the
     last `probe_rows` rows. */
  const lazyprune_probe* probes;
  size_t probes_count;
  size_t probe_rows;
  /* For later, 0 in this version: how many active tokens go on, where an engine may choose them on its device (evidence.chosen). */
  size_t quota;
} lazyprune_plan;
#define LAZYPRUNE_PLAN \
  { sizeof(lazyprune_plan), 0, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0 }
LAZYPRUNE_API lazyprune_status lazyprune_step_enter(lazyprune_session* session, uint32_t layer, lazyprune_plan* out);

/* The numbers of the pages of `size` positions that hold an active token of the layer entered, ascending: as many as there is `room` for;
   `count` is how many there are. */
LAZYPRUNE_API lazyprune_status lazyprune_step_pages(const lazyprune_session* session, size_t size, uint32_t* pages, size_t room,
                                                    size_t* count);

/* Valid until the next enter. */
typedef struct lazyprune_spills {
  uint32_t struct_size;
  float margin; /* (least kept - best dropped) / |least kept| score where the selection is by score alone; else NaN */
  const lazyprune_spill* items;
  size_t count;
} lazyprune_spills;
#define LAZYPRUNE_SPILLS \
  { sizeof(lazyprune_spills), 0.0f, NULL, 0 }
/* The layer is done. `evidence`: what the plan wants, read during the call only; null where it wants nothing, and passed over there. Where
   it is not what is wanted the call says so, and the layer is not left. */
LAZYPRUNE_API lazyprune_status lazyprune_step_leave(lazyprune_session* session, const lazyprune_evidence* evidence, lazyprune_spills* out);

/* All layers of the step are left. */
LAZYPRUNE_API lazyprune_status lazyprune_step_finish(lazyprune_session* session);

#ifdef __cplusplus
}
#endif

#endif
