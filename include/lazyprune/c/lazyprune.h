/* SPDX-License-Identifier: MIT */
/*
 * The C interface of lazyprune's pruning session (LazyLLM, arXiv 2407.14057), for every language that can call C. The session plans; the
 * engine computes and owns all memory. The library is built from one file, examples/c_library/lazyprune.cpp. The C++ headers in
 * include/lazyprune/session/ (step_machine.hpp, step.hpp) document each call in full. examples/EMBEDDING.md is the guide.
 *
 *   lazyprune_session* session;
 *   lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
 *   options.layers = 32;
 *   lazyprune_session_create(NULL, "lazyllm --stages 9:0.7,19:0.5", &options, &session);
 *
 *   lazyprune_request request = LAZYPRUNE_REQUEST;           a forward pass over `tokens` new tokens
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
 * Every call returns a status. The status has a message, which is "" or one line. The message stays valid until the next failing call of
 * the same thread. A failed call has changed nothing, except in one case: if a callback fails, the step in progress can only be given up
 * (lazyprune_session_abandon). No exception leaves the library, and no exception may enter it. A callback must return: it must not throw
 * or longjmp. It must not call functions of the session that called it.
 *
 * A struct with an initializer here begins with its size, which the initializer sets. The library reads and writes only the members that
 * this size covers, so a program also works with newer libraries. Within one LAZYPRUNE_ABI these structs only grow, at their ends. The
 * structs that callbacks are shown (lazyprune_shown, lazyprune_layer) grow in the same way. A callback may read a member that a
 * later version has added only if struct_size covers it. The other structs (lazyprune_status, lazyprune_source, lazyprune_spill,
 * lazyprune_probe, lazyprune_layer_counts) never change. Members named `reserved` fill gaps. A caller sets them to 0 in structs that it
 * writes, and ignores them in structs that the library writes.
 *
 * Threads: after the last addition to a registry, several threads may use it. A session and its step belong to one thread at a time.
 * Different sessions are independent, but sessions that share a scratch must all belong to one thread. A clone shares its session's
 * scratch. A callback runs on the thread of the call that needs it. Several threads may run it at the same time, each for its own
 * session.
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
  LAZYPRUNE_WRONG_ORDER = 2, /* another call has to come first */
  LAZYPRUNE_NO_ROOM = 3,     /* the sequence would exceed the reserved tokens */
  LAZYPRUNE_NO_MEMORY = 4,
  LAZYPRUNE_UNSUPPORTED = 5, /* valid, but this library does not implement it */
  LAZYPRUNE_INTERNAL = 6,    /* a defect of the library */
  LAZYPRUNE_CALLBACK = 7     /* a callback failed; if the callback returned another error code, the call returns that code */
};

typedef struct lazyprune_status {
  int32_t code;
  uint32_t reserved;
  const char* message; /* "PLACE: expected ..., found ..." */
} lazyprune_status;

/* The library's version ("0.3.0"), and the LAZYPRUNE_ABI that it was built for. */
LAZYPRUNE_API const char* lazyprune_version(void);
LAZYPRUNE_API uint32_t lazyprune_abi(void);

/* ---- words ---- */

enum { LAZYPRUNE_PREFILL = 0, LAZYPRUNE_DECODE = 1 };

/* The places of a row's input, and of a spill. A waiting row was computed by a chunk: a step without outputs. A later step with outputs
   takes the row into the next layer. */
enum {
  LAZYPRUNE_EMBEDDING = 0, /* look the token at position `index` up in the embedding table */
  LAZYPRUNE_CARRIED = 1,   /* row `index` of the layer before, in this step */
  LAZYPRUNE_STORED = 2,    /* slot `index` of the aux store: the row is revived */
  LAZYPRUNE_WAITING = 3    /* slot `index` of the waiting rows */
};

/* The evidence that a scorer needs. */
enum {
  LAZYPRUNE_NOTHING = 0,
  LAZYPRUNE_ATTENTION = 1, /* the query token's probabilities: data (heads, active), rows `stride` apart */
  LAZYPRUNE_WINDOW = 2,    /* probabilities of the last queries: data (queries, heads, active), 0 if a query does not see a token */
  LAZYPRUNE_KEYS = 3,      /* cached keys after RoPE: data (active, kv_heads, head_dim), tokens `stride` apart */
  LAZYPRUNE_VALUES = 4,    /* like ATTENTION, and values (active, kv_heads, head_dim), tokens `values_stride` apart */
  LAZYPRUNE_HIDDEN = 5,    /* the layer's outputs: data (rows, hidden), rows `stride` apart */
  LAZYPRUNE_IDS = 6,       /* the token ids: ids (known), by position */
  LAZYPRUNE_PROBES = 7     /* attention of chosen heads: data (probes, active), rows `stride` apart: the rows that plan.probes lists */
};

/* The way in which a scorer reads the heads of attention: each head, or only the mean or the maximum of all heads. */
enum { LAZYPRUNE_EACH = 0, LAZYPRUNE_MEAN = 1, LAZYPRUNE_MAX = 2 };

/* The answer of a schedule that does not prune. */
#define LAZYPRUNE_EVERYTHING SIZE_MAX
/* The answer with which the tokens go on that have keys in the next layer, and the required ones. No token is brought back. */
#define LAZYPRUNE_ALL_WITH_KEYS (SIZE_MAX - 1)

/* The input of one row. `origin` is one of LAZYPRUNE_EMBEDDING to LAZYPRUNE_WAITING. Their comments say what `index` is. */
typedef struct lazyprune_source {
  uint8_t origin;
  uint8_t reserved[3];
  uint32_t index;
} lazyprune_source;

/* A hidden state to save. If `origin` is CARRIED, `row` is an index into plan.rows of the layer just left. The hidden state is then that
   layer's output for the row, and the next layer's input. If `origin` is WAITING, `row` is a slot of the waiting rows. The hidden state
   goes to slot `slot` of the place `to`, which is STORED or WAITING. Keep waiting rows exactly as they were computed. Stored rows may be
   rounded. */
typedef struct lazyprune_spill {
  uint32_t row;
  uint32_t slot;
  uint8_t origin;
  uint8_t to;
  uint8_t reserved[2];
} lazyprune_spill;

/* One row of attention that a scorer wants of the entered layer: the probabilities of one head, reduced over the last queries. */
typedef struct lazyprune_probe {
  uint32_t head;         /* query head, from 0 */
  uint32_t over_queries; /* LAZYPRUNE_LAST, LAZYPRUNE_MEAN or LAZYPRUNE_MAX over the last plan.probe_rows rows */
} lazyprune_probe;
enum { LAZYPRUNE_LAST = 0 };

/* Evidence, in float. Query head h reads key head h * kv_heads / heads. Strides are in floats, not bytes. `data_count` is how many
   numbers `data` points at, and so on for the other arrays. The library refuses an array that is too short for the other members. If a
   count is 0, the library does not check the length of that array. If a number is not finite, lazyprune_step_leave returns BAD_INPUT, and
   the message names the token's position. */
typedef struct lazyprune_evidence {
  uint32_t struct_size;
  uint32_t kind; /* plan.wants */
  const float* data;
  size_t data_count;
  size_t stride;
  size_t heads;   /* ATTENTION, WINDOW, VALUES: query heads */
  size_t queries; /* WINDOW: plan.window; the last query is the query token's */
  size_t kv_heads;
  size_t head_dim;
  size_t hidden;
  const float* values;
  size_t values_count;
  size_t values_stride;
  const uint32_t* ids;
  size_t ids_count; /* must be the number of known tokens; always checked */
  /* For engines whose fused attention yields no probabilities. If `data` is null, the library computes the probabilities of ATTENTION,
     WINDOW, VALUES and PROBES itself, as the softmax of q.k / sqrt(head_dim). If the model uses another factor, scale the query. Give
     `data` if the model caps these products (soft caps) or has attention sinks: the library would compute other probabilities. `query`
     (queries, heads, head_dim) and `keys` (slots, kv_heads, head_dim) must be given, both after RoPE. ATTENTION and VALUES need only one
     query, and PROBES the last plan.probe_rows. The library reads the active keys once for each query. The session also allocates memory for the probabilities, and keeps this memory. */
  const float* query;
  size_t query_count;
  size_t query_stride; /* between queries; 0: heads * head_dim */
  const float* keys;
  size_t keys_count;
  size_t keys_stride;        /* between slots; 0: kv_heads * head_dim */
  const uint32_t* key_slots; /* (active) the slot of each active token's key; null: active token i is in slot i */
  size_t key_slots_count;
  /* For engines that choose the tokens themselves, for example on their device. Such an engine passes these three members in the place of
     `data`, if plan.quota is not 0. `kind` is plan.wants, as with evidence, and `data` is null. `chosen` (chosen_count) holds plan.quota
     indices into plan.active, ascending. `chosen_scores` (active) holds the scores that they were chosen by, all finite. It may be null
     unless plan.needs_scores is set. Without it, `margin` is NaN, and dropped tokens have the score 0. See lazyprune_step_standing for the
     rules of a choice. */
  const uint32_t* chosen;
  size_t chosen_count;
  const float* chosen_scores;
} lazyprune_evidence;
#define LAZYPRUNE_EVIDENCE \
  { sizeof(lazyprune_evidence), 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, NULL, 0, NULL }

/* ---- custom policies ---- */

/* A policy is chosen by its text, which has the form of the flags of the program `lazyprune`: "lazyllm --stages 9:0.7". A registry holds
   the library's own presets and parts (scorers, schedules, selectors, stores), and custom parts beside them. A custom part has a name that
   the text can use: "lazyllm --scorer mine". Only scorers and schedules can be custom.

   Callbacks return a code: LAZYPRUNE_OK or an error, which is LAZYPRUNE_CALLBACK if no other code fits. They may write the reason into
   `message`: one line of at most `message_room` bytes, the final 0 included. If a callback fails, nothing is dropped, and the call that
   needed it returns the callback's code and message. The step can then only be given up (lazyprune_session_abandon, or reset). */
typedef struct lazyprune_registry lazyprune_registry;

/* The input of a scorer. Valid during the call. */
typedef struct lazyprune_shown {
  uint32_t struct_size;
  uint32_t done;             /* number of layers done; the last of these layers gave the evidence */
  const uint32_t* positions; /* (active), ascending; the last one is the query token */
  size_t active;
  const uint32_t* rows; /* (rows_count) HIDDEN: the positions of the rows of evidence->data, ascending */
  size_t rows_count;
  const lazyprune_evidence* evidence; /* null if the scorer wants NOTHING */
  float* memory;                      /* (known), by position; null unless the scorer wants every layer; zero when the sequence starts */
  size_t known;                       /* tokens of the sequence; 0 unless the scorer wants IDS, NOTHING or every layer */
  char* message;                      /* (message_room), "" on entry */
  size_t message_room;
} lazyprune_shown;

typedef struct lazyprune_scorer {
  uint32_t struct_size;
  uint32_t wants;       /* the evidence; NOTHING: positions are enough, and pruning before layer 0 is possible */
  uint32_t every_layer; /* not 0: wants evidence after every layer but the last, and memory */
  uint32_t window;      /* WINDOW: number of queries, at least 1. With `every_layer` the queries are the last `window` tokens that no step
                           with outputs has read yet. These tokens are required. A chunk leaves the last window - 1 of them for a later
                           step */
  uint32_t over_heads;  /* ATTENTION, WINDOW: EACH, MEAN or MAX of the heads; plan.over_heads repeats it */
  uint32_t reserved;    /* 0 */
  /* Writes the scores (active); larger is more important. The last `outputs` tokens of the step are required: they stay, whatever their
     scores. The other tokens are ranked by their scores. Tokens with a score of +infinity count towards the number of kept tokens like any
     other; among them the later position wins. NaN is the lowest score. */
  int32_t (*score)(void* user, const lazyprune_shown* shown, float* scores);
  void* user; /* shared by all sessions; keep the state of one sequence in `memory` */
  /* Called once, after the registry and the last session with this scorer have been freed, on the thread that frees the last of them. It is
     not called if adding the scorer failed. May be null. */
  void (*destroy)(void* user);
} lazyprune_scorer;
#define LAZYPRUNE_SCORER \
  { sizeof(lazyprune_scorer), 0, 0, 0, 0, 0, NULL, NULL, NULL }

typedef struct lazyprune_layer {
  uint32_t struct_size;
  uint32_t done;   /* number of layers done: the answer decides which tokens enter layer `done` */
  uint32_t layers; /* of the model */
  uint32_t phase;
  size_t active; /* tokens that took part in the layer just done */
  size_t known;  /* tokens of the sequence, pruned ones included */
  char* message; /* (message_room), "" on entry */
  size_t message_room;
} lazyprune_layer;

typedef struct lazyprune_schedule {
  uint32_t struct_size;
  uint32_t sees_scores; /* not 0: `keep` always gets `scores` (active); 0: `scores` is null */
  /* The smallest number of done layers at which the schedule prunes, in any step. With fewer layers done, `keep` must answer EVERYTHING.
     Chunks of a prompt run at most this number of layers. 0 is always correct, but slower: chunks then run at most one layer, and the
     step with outputs that follows must run the rest. If `first` is options.layers or more, the schedule never prunes; this is no error. */
  uint32_t first;
  uint32_t reserved; /* 0 */
  /* Writes into `kept` how many of the active tokens go on. On entry `kept` holds EVERYTHING. The answer must depend on nothing but the
     arguments: lazyprune_step_counts asks for later layers in advance, and lazyprune_step_enter then asks again. */
  int32_t (*keep)(void* user, const lazyprune_layer* layer, const float* scores, size_t* kept);
  void* user;
  void (*destroy)(void* user); /* like the `destroy` of a scorer */
  /* The numbers of done layers after which the schedule prunes, ascending (after_count). `keep` is called only after these numbers of
     layers. Null: the schedule may prune after any number from `first` on. If options.attention_after is set and the scorer reads
     attention, a session refuses a schedule that could prune after a number of layers that is not in options.attention_after. Numbers that
     the session never reaches are no error, and nothing is pruned there: those from options.layers on, and 0 unless the scorer wants
     NOTHING. */
  const uint32_t* after;
  size_t after_count;
} lazyprune_schedule;
#define LAZYPRUNE_SCHEDULE \
  { sizeof(lazyprune_schedule), 0, 0, 0, NULL, NULL, NULL, NULL, 0 }

/* Creates a registry of the library's presets and parts. Sessions copy the parts that they need. */
LAZYPRUNE_API lazyprune_status lazyprune_registry_create(lazyprune_registry** out);
LAZYPRUNE_API void lazyprune_registry_free(lazyprune_registry* registry); /* null is allowed */
/* A name consists of lower-case letters, digits and underscores. Returns BAD_INPUT if another part of that kind already has the name. */
LAZYPRUNE_API lazyprune_status lazyprune_registry_add_scorer(lazyprune_registry* registry, const char* name,
                                                             const lazyprune_scorer* scorer);
LAZYPRUNE_API lazyprune_status lazyprune_registry_add_schedule(lazyprune_registry* registry, const char* name,
                                                               const lazyprune_schedule* schedule);

/* Working memory of a selection, about 28 bytes a token. The sessions of one thread may share it. */
typedef struct lazyprune_scratch lazyprune_scratch;
LAZYPRUNE_API lazyprune_status lazyprune_scratch_create(lazyprune_scratch** out);
LAZYPRUNE_API void lazyprune_scratch_free(lazyprune_scratch* scratch); /* null is allowed; sessions that use it keep it alive */

/* ---- sessions ---- */

typedef struct lazyprune_session lazyprune_session;

typedef struct lazyprune_session_options {
  uint32_t struct_size;
  uint32_t layers;   /* of the model */
  size_t max_tokens; /* room for this many tokens is reserved; a step that exceeds it returns NO_ROOM. 0: memory grows with the sequence */
  /* For models with layers that see only a window: the numbers of done layers after which tokens may be dropped by attention, ascending.
     Null: after any number. */
  const uint32_t* attention_after;
  size_t attention_after_count;
  lazyprune_scratch* scratch; /* null: the session's own */
  uint32_t checks;            /* LAZYPRUNE_CHECK_ATTENTION, or 0 */
  uint32_t reserved;          /* 0 */
} lazyprune_session_options;
#define LAZYPRUNE_SESSION_OPTIONS \
  { sizeof(lazyprune_session_options), 0, 0, NULL, 0, NULL, 0, 0 }

/* A check for the development of an engine. lazyprune_step_leave refuses rows of probabilities that do not sum to 1 within 2 %. It also
   refuses probabilities below 0, and probabilities other than 0 for tokens that a query of a window does not see. The check finds logits
   instead of probabilities, wrong strides and wrong numbers of heads. It does not check the numbers of probes. Do not set it if rows of
   attention sum to less than 1 (attention sinks), or if the engine shows other numbers as attention. */
enum { LAZYPRUNE_CHECK_ATTENTION = 1 };

/* `policy` is a preset's name, followed by flags: "lazyllm", "lazyllm_blocks --stages 15:0.3", "custom --schedule mine --scorer key_norm".
   Without a name, or with "custom", flags that are not given have lazyllm's values. A null registry stands for the library's own presets
   and parts. The library does not know models by name. Without --stages, "lazyllm" has the paper's stages for `options.layers` layers.
   `lazyprune run` uses the stages known for its model instead. To prune like `lazyprune run`, pass these stages in --stages. */
LAZYPRUNE_API lazyprune_status lazyprune_session_create(const lazyprune_registry* registry, const char* policy,
                                                        const lazyprune_session_options* options, lazyprune_session** out);
LAZYPRUNE_API void lazyprune_session_free(lazyprune_session* session); /* null is allowed */

/* Writes the policy for this model as a text of all its flags, with their values: at most `room` bytes, the final 0 included. `length` is
   the length of the whole text without the 0. */
LAZYPRUNE_API lazyprune_status lazyprune_policy_text(const lazyprune_registry* registry, const char* policy,
                                                     const lazyprune_session_options* options, char* out, size_t room, size_t* length);

/* Writes the contents of a registry, one line for each kind: presets, scorers, schedules, selectors and stores. Each part
   is listed with the keys that its text may have. */
LAZYPRUNE_API lazyprune_status lazyprune_policy_help(const lazyprune_registry* registry, char* out, size_t room, size_t* length);

/* Call the functions of this section between steps, unless their comments say otherwise. */
LAZYPRUNE_API lazyprune_status lazyprune_session_clone(const lazyprune_session* session, lazyprune_session** out);
/* Reserves room for `max_tokens` tokens and makes this the limit, as options.max_tokens does. 0 removes the limit. */
LAZYPRUNE_API lazyprune_status lazyprune_session_reserve(lazyprune_session* session, size_t max_tokens);
/* Allowed at any time. Forgets all tokens and resets the statistics. */
LAZYPRUNE_API lazyprune_status lazyprune_session_reset(lazyprune_session* session);

/* Allowed at any time. Gives up the step in progress and forgets its new tokens. Some older tokens are lost: no later step can compute
   further layers of them. A token is lost if its row was carried from the layer before, and was not in any slot, when the step stopped. It
   is also lost if it was in `spills` of the layer last left. Spills count as saved when the next layer is entered. Rows that were about to
   leave their waiting slots stay there and go on waiting. If a layer was entered and not left, the engine must remove the keys and values
   that it wrote for that layer. If lazyprune_step_leave failed because of a callback, its layer was left, and the keys and values stay. */
LAZYPRUNE_API lazyprune_status lazyprune_session_abandon(lazyprune_session* session);

/* Forgets the tokens from position `tokens` on, for example rejected drafts. What the forgotten steps did to the remaining tokens stays:
   such a token can be dropped, be lost, or have the keys and values of more layers, and a scorer's memory of it stays. To ask a second question about one text, clone the
   session before the first. If the scorer wants WINDOW after every layer, the last window - 1 of the remaining tokens get frontier 0 again,
   and a later step computes them anew. Tokens that a step with outputs has read keep their frontier. */
LAZYPRUNE_API lazyprune_status lazyprune_session_truncate(lazyprune_session* session, size_t tokens);

/* Adds `tokens` tokens at the end of the sequence. The engine must have their keys and values at all layers. Other tokens, and chunks, may
   precede them. The session does not ask how these keys were computed. */
LAZYPRUNE_API lazyprune_status lazyprune_session_adopt(lazyprune_session* session, size_t tokens);

/* Continues the sequence of `other` in a session without tokens. `other` must have read chunks only. One document can thus be pruned in
   many ways. */
LAZYPRUNE_API lazyprune_status lazyprune_session_take_over(lazyprune_session* session, const lazyprune_session* other);
/* Writes to `layers` how many layers a chunk of this phase runs. */
LAZYPRUNE_API lazyprune_status lazyprune_session_chunk_layers(const lazyprune_session* session, uint32_t phase, uint32_t* layers);

typedef struct lazyprune_session_state {
  uint32_t struct_size;
  uint32_t layers;
  size_t known;         /* tokens of the sequence, pruned ones included */
  size_t slots;         /* rows that the aux store must hold: the most slots that were in use at one time */
  size_t stored;        /* slots in use now */
  size_t waiting_slots; /* waiting rows that the engine must hold: the most slots that were in use at one time */
  size_t waiting;       /* slots of waiting rows in use now */
  size_t lost;          /* tokens whose hidden state is gone */
} lazyprune_session_state;
#define LAZYPRUNE_SESSION_STATE \
  { sizeof(lazyprune_session_state), 0, 0, 0, 0, 0, 0, 0 }
/* Allowed at any time, as are the functions that follow in this section. */
LAZYPRUNE_API lazyprune_status lazyprune_session_get_state(const lazyprune_session* session, lazyprune_session_state* out);

typedef struct lazyprune_token {
  uint32_t struct_size;
  uint32_t frontier; /* the number of layers that have its keys and values */
  uint32_t place;    /* STORED or WAITING: its hidden state is in `slot`; CARRIED: it has no slot */
  uint32_t slot;
  uint32_t lost; /* not 0: its hidden state is gone, and its frontier stays */
  uint32_t gone; /* not 0: every later plan leaves it out */
  float score;   /* its score when it was last dropped */
  uint32_t reserved;
} lazyprune_token;
#define LAZYPRUNE_TOKEN \
  { sizeof(lazyprune_token), 0, 0, 0, 0, 0, 0.0f, 0 }
LAZYPRUNE_API lazyprune_status lazyprune_session_get_token(const lazyprune_session* session, uint32_t position, lazyprune_token* out);

typedef struct lazyprune_statistics {
  uint32_t struct_size;
  uint32_t layers;
  uint64_t steps;
  uint64_t rows;                    /* rows computed; one row is one token in one layer */
  uint64_t dense_rows;              /* rows that the dense model computes in the same steps */
  uint64_t revived;                 /* rows whose input came from the aux store */
  const size_t* prefill_rows;       /* (layers), computed in the prefill steps; valid until the session is next used */
  const size_t* prefill_dense_rows; /* (layers) */
} lazyprune_statistics;
#define LAZYPRUNE_STATISTICS \
  { sizeof(lazyprune_statistics), 0, 0, 0, 0, 0, NULL, NULL }
LAZYPRUNE_API lazyprune_status lazyprune_session_get_statistics(const lazyprune_session* session, lazyprune_statistics* out);

/* The tokens that were dropped since the last lazyprune_step_begin and that no later plan has, ascending. The array is valid until the
   session is next changed. The keys and values of these tokens, and their pages, can be freed. Read them after lazyprune_session_abandon,
   too: the step that was given up may have dropped older tokens, and the next lazyprune_step_begin empties the list. */
LAZYPRUNE_API lazyprune_status lazyprune_session_get_losses(const lazyprune_session* session, const uint32_t** positions, size_t* count);

/* ---- one step ---- */

typedef struct lazyprune_request {
  uint32_t struct_size;
  uint32_t phase;
  size_t tokens; /* new tokens, at least 1, at the end of the sequence */
  /* `outputs` has no default. With a default, a caller that forgot to set it would prune a chunk by the chunk's own last token.
     k >= 1: the last k new tokens are required at every layer, and the last layer computes them to the end. The last of them is the
     query token. Use 1 for a prompt's last piece and for a generated token. Use k to verify k - 1 drafts.
     0: a chunk, a piece of a prompt that more pieces follow. It has no query, so nothing is scored or dropped. Its rows stop
     before the first point where the policy could drop tokens, and wait. A later step with outputs takes them on from there. */
  size_t outputs;
} lazyprune_request;
#define LAZYPRUNE_OUTPUTS_UNSET SIZE_MAX
#define LAZYPRUNE_REQUEST \
  { sizeof(lazyprune_request), LAZYPRUNE_PREFILL, 0, LAZYPRUNE_OUTPUTS_UNSET }

/* Steps may come in any order. A sequence may begin with a decode step. A chunk may follow a finished prompt: it reads the next turn of a
   conversation, and its rows wait like those of the first prompt. The phase decides what the policy may prune, and which numbers of
   the statistics count the rows. */

/* Returns the status that lazyprune_step_begin would return, and changes nothing. Use it for a batch: check all requests before the first
   step begins. */
LAZYPRUNE_API lazyprune_status lazyprune_step_check(const lazyprune_session* session, const lazyprune_request* request);

/* Begins a step. Writes to `layers` how many layers the step runs. */
LAZYPRUNE_API lazyprune_status lazyprune_step_begin(lazyprune_session* session, const lazyprune_request* request, uint32_t* layers);

/* One layer. The arrays are valid until the layer is left. */
typedef struct lazyprune_plan {
  uint32_t struct_size;
  uint32_t layer;
  const uint32_t* active; /* (active_count) positions, ascending: the tokens that take part; each has keys and values here, or is a row */
  size_t active_count;
  const uint32_t* rows;            /* (rows_count) positions, ascending: the tokens to compute; each sees the active tokens up to itself */
  const lazyprune_source* sources; /* (rows_count) where the input of each row lies */
  size_t rows_count;
  size_t finish;   /* the last `finish` rows need the layer's output; the others need only keys and values. `finish` is rows_count, but in
                      the model's last layer it is the request's `outputs` */
  uint32_t wants;  /* the evidence that lazyprune_step_leave needs */
  uint32_t window; /* WINDOW: number of queries */
  /* ATTENTION, WINDOW: EACH, MEAN or MAX, as the scorer reads the heads. If it is MEAN or MAX, evidence may have one head that holds this
     mean or maximum. The engine then copies less from its device. */
  uint32_t over_heads;
  uint32_t reserved;
  /* PROBES, else null and 0: the rows of attention (probes_count) that the scorer wants at this layer, each over the last `probe_rows`
     rows. A row gives 0 to a token that it does not see. */
  const lazyprune_probe* probes;
  size_t probes_count;
  size_t probe_rows;
  /* The number of active tokens that go on, the required ones included, if the engine may choose them (evidence.chosen). 0: the engine must
     show evidence, or nothing is decided. The engine must show evidence if the number depends on scores, or if the scorer gathers evidence
     at every layer. */
  size_t quota;
  uint32_t quota_page;     /* if there is a quota: 1, or the number of positions in a page; then whole pages go on */
  uint32_t needs_scores;   /* not 0: evidence.chosen_scores is required, because the store ranks dropped tokens by them */
  uint32_t row_is_score;   /* not 0: the score of a token is its number in the evidence, reduced over the heads as `over_heads` says. 0: an
                              engine that chooses must know the policy's scorer */
  uint32_t stores_dropped; /* not 0: each dropped row of this layer gets a slot of the aux store. 0: none does, or the store ranks them */
} lazyprune_plan;
#define LAZYPRUNE_PLAN \
  { sizeof(lazyprune_plan), 0, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0 }
LAZYPRUNE_API lazyprune_status lazyprune_step_enter(lazyprune_session* session, uint32_t layer, lazyprune_plan* out);

/* Finds the pages that hold an active token of the entered layer. A page has `size` positions. Writes at most `room` page numbers,
   ascending. `count` is the number of all such pages. */
LAZYPRUNE_API lazyprune_status lazyprune_step_pages(const lazyprune_session* session, size_t size, uint32_t* pages, size_t room,
                                                    size_t* count);

/* The standing of an active token in the choice after the entered layer. */
enum {
  LAZYPRUNE_OPEN = 0,     /* its score decides */
  LAZYPRUNE_REQUIRED = 1, /* it stays */
  LAZYPRUNE_EXCLUDED = 2  /* it cannot go on, because its hidden state is gone */
};
/* Writes the standing of each active token of the entered layer (active), if plan.quota is not 0. `room` must be at least
   plan.active_count. An engine that chooses ranks the open tokens by score. NaN is the lowest score. Among equal scores the later position
   wins. With pages, the score of a page is the highest score of its tokens, and all pages with a required token stay. The best tokens or
   pages go on, until plan.quota tokens stay. The library checks the number of tokens and their order. It also checks that no required
   token is missing, that no excluded token is chosen, that pages are whole, and that the scores are finite. It cannot check that the
   chosen tokens are the best ones. */
LAZYPRUNE_API lazyprune_status lazyprune_step_standing(lazyprune_session* session, uint32_t* standing, size_t room);

/* A layer that follows a choice, before the choice is known. */
typedef struct lazyprune_layer_counts {
  uint32_t layer;
  uint32_t chooses; /* not 0: the engine chooses after this layer, too */
  size_t active;    /* active tokens; all of them are rows */
  size_t finish;    /* as in lazyprune_plan */
  size_t kept;      /* the tokens that go on */
} lazyprune_layer_counts;
/* Writes the counts of the layers after the entered one (at most `room`), and to `count` for how many layers they are known. They are known
   for prompts under schedules such as stages, and the stores keep_all and none, if plan.quota is not 0. An engine can then start the work
   of all these layers before its device has chosen. Later it reads the choices back, leaves this layer with the first one, and enters and
   leaves the other layers in order. The `keep` of a schedule of the caller is called for the later layers here, and again when they are
   entered. So its answers must depend on nothing but its arguments. If it fails, the step can only be given up. */
LAZYPRUNE_API lazyprune_status lazyprune_step_counts(lazyprune_session* session, lazyprune_layer_counts* counts, size_t room,
                                                     size_t* count);
/* Writes the slots of the aux store that the next `count` rows get which are dropped in these layers: layer by layer, in the order of the
   positions. If plan.stores_dropped is 0, no row gets a slot. */
LAZYPRUNE_API lazyprune_status lazyprune_step_slots(const lazyprune_session* session, uint32_t* slots, size_t count);

/* `items` is valid until the session is next changed, so save the rows before that. */
typedef struct lazyprune_spills {
  uint32_t struct_size;
  float margin; /* (least kept score - best dropped score) / |least kept score|, if the selection is by score alone; else NaN */
  const lazyprune_spill* items;
  size_t count;
} lazyprune_spills;
#define LAZYPRUNE_SPILLS \
  { sizeof(lazyprune_spills), 0.0f, NULL, 0 }
/* Ends the layer. `evidence` must be the evidence that the plan wants, or a choice if plan.quota is not 0. Otherwise the call fails, and
   the layer is not left. But if a callback fails, the layer is left, and nothing is dropped. If the plan wants nothing, `evidence` may be null. Its data is then ignored, but a choice is refused. A choice
   where plan.quota is 0 gives WRONG_ORDER. The library reads `evidence` only during the call. */
LAZYPRUNE_API lazyprune_status lazyprune_step_leave(lazyprune_session* session, const lazyprune_evidence* evidence, lazyprune_spills* out);

/* Ends the step after all its layers. */
LAZYPRUNE_API lazyprune_status lazyprune_step_finish(lazyprune_session* session);

#ifdef __cplusplus
}
#endif

#endif
