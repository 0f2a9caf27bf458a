/* SPDX-License-Identifier: MIT */
/*
 * A whole engine in C99 that prunes with LazyLLM. It loads a Llama from a safetensors file and computes in double with plain loops. A
 * session of the C library says which rows to compute. The engine continues a prompt greedily, and prints a trace of what each layer
 * computed. The trace has the format of lazyprune run --trace, and lazyprune compare compares two traces.
 *
 *   engine MODEL_FOLDER IDS_FILE [policy TEXT] [tokens N] [chunk N] [fork N] [fused] [full]
 *
 * IDS_FILE: the prompt, as token ids between white space. chunk N: the prompt is read N tokens at a time. fork N: the first N tokens are a
 * document. The engine reads it as one chunk, and a fork of the sequence reads the rest of the prompt. fused: the engine shows queries and
 * keys to the policy, like an engine whose attention yields no probabilities. full: the trace also has scores and logits (lazyprune compare
 * --against).
 */
#include <lazyprune/c/lazyprune.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char* what, const char* why) {
  fprintf(stderr, "engine: %s: %s\n", what, why);
  exit(1);
}

static void must(lazyprune_status status) {
  if (status.code != LAZYPRUNE_OK) stop("session", status.message);
}

static void* room(size_t count, size_t size) {
  void* memory = calloc(count > 0 ? count : 1, size);
  if (!memory) stop("memory", "expected enough memory, found too little");
  return memory;
}

static double* numbers(size_t count) { return room(count, sizeof(double)); }

/* ---- the model ---- */

typedef struct layer_weights {
  double *q, *k, *v, *o, *gate, *up, *down; /* (in, out), so that a product adds whole rows */
  double *attention_norm, *feed_forward_norm;
} layer_weights;

typedef struct model {
  size_t hidden, feed_forward, layers, heads, kv_heads, head_dim, vocabulary, max_tokens;
  double epsilon, rope_base;
  double *embedding, *norm, *head; /* embedding: (vocabulary, hidden) */
  layer_weights* layer;
} model;

/* Reads a whole file and adds a 0 after it. */
static char* read_file(const char* folder, const char* name, size_t* size) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) stop(path, "expected a file that can be read");
  const long end = ftell(file);
  rewind(file);
  char* bytes = room((size_t)end + 1, 1);
  if (fread(bytes, 1, (size_t)end, file) != (size_t)end) stop(path, "expected a file that can be read");
  fclose(file);
  if (size) *size = (size_t)end;
  return bytes;
}

static double config_number(const char* config, const char* key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char* at = strstr(config, quoted);
  if (!at) {
    char missing[96];
    snprintf(missing, sizeof missing, "expected the key \"%s\", found none", key);
    stop("config.json", missing);
  }
  return strtod(at + strlen(quoted), NULL);
}

/* Loads a bfloat16 tensor as (rows, columns), or as (columns, rows) if `transposed`. */
static double* load(const char* file, const char* name, size_t rows, size_t columns, int transposed) {
  char quoted[128];
  unsigned long long header = 0, begin, end;
  for (int i = 7; i >= 0; --i) header = header << 8 | (unsigned char)file[i];
  snprintf(quoted, sizeof quoted, "\"%s\":{\"dtype\":\"BF16\"", name);
  const char* at = strstr(file + 8, quoted);
  if (at) at = strstr(at, "\"data_offsets\":[");
  if (!at || sscanf(at, "\"data_offsets\":[%llu,%llu]", &begin, &end) != 2 || end - begin != 2 * rows * columns)
    stop(name, "expected BF16");
  const unsigned char* data = (const unsigned char*)file + 8 + header + begin;
  double* out = numbers(rows * columns);
  for (size_t i = 0; i < rows * columns; ++i) {
    const uint32_t bits = (uint32_t)data[2 * i] << 16 | (uint32_t)data[2 * i + 1] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    out[transposed ? i % columns * rows + i / columns : i] = value;
  }
  return out;
}

static model load_model(const char* folder) {
  char* config = read_file(folder, "config.json", NULL);
  for (char *from = config, *to = config; (*to = *from) != 0; ++from) to += *from != ' ';
  model m;
  m.hidden = (size_t)config_number(config, "hidden_size");
  m.feed_forward = (size_t)config_number(config, "intermediate_size");
  m.layers = (size_t)config_number(config, "num_hidden_layers");
  m.heads = (size_t)config_number(config, "num_attention_heads");
  m.kv_heads = (size_t)config_number(config, "num_key_value_heads");
  m.head_dim = (size_t)config_number(config, "head_dim");
  m.vocabulary = (size_t)config_number(config, "vocab_size");
  m.max_tokens = (size_t)config_number(config, "max_position_embeddings");
  m.epsilon = config_number(config, "rms_norm_eps");
  m.rope_base = config_number(config, "rope_theta");
  free(config);

  char* file = read_file(folder, "model.safetensors", NULL);
  const size_t heads = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  m.embedding = load(file, "model.embed_tokens.weight", m.vocabulary, m.hidden, 0);
  m.norm = load(file, "model.norm.weight", 1, m.hidden, 0);
  m.head = load(file, "lm_head.weight", m.vocabulary, m.hidden, 1);
  m.layer = room(m.layers, sizeof *m.layer);
  for (size_t l = 0; l < m.layers; ++l) {
    char name[96];
    layer_weights* w = &m.layer[l];
    const struct {
      double** to;
      const char* name;
      size_t rows, columns;
      int transposed;
    } tensors[] = {{&w->q, "self_attn.q_proj", heads, m.hidden, 1},
                   {&w->k, "self_attn.k_proj", kv, m.hidden, 1},
                   {&w->v, "self_attn.v_proj", kv, m.hidden, 1},
                   {&w->o, "self_attn.o_proj", m.hidden, heads, 1},
                   {&w->gate, "mlp.gate_proj", m.feed_forward, m.hidden, 1},
                   {&w->up, "mlp.up_proj", m.feed_forward, m.hidden, 1},
                   {&w->down, "mlp.down_proj", m.hidden, m.feed_forward, 1},
                   {&w->attention_norm, "input_layernorm", 1, m.hidden, 0},
                   {&w->feed_forward_norm, "post_attention_layernorm", 1, m.hidden, 0}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
      snprintf(name, sizeof name, "model.layers.%zu.%s.weight", l, tensors[i].name);
      *tensors[i].to = load(file, name, tensors[i].rows, tensors[i].columns, tensors[i].transposed);
    }
  }
  free(file);
  return m;
}

static void free_model(model* m) {
  for (size_t l = 0; l < m->layers; ++l) {
    layer_weights* w = &m->layer[l];
    double* all[] = {w->q, w->k, w->v, w->o, w->gate, w->up, w->down, w->attention_norm, w->feed_forward_norm};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  }
  free(m->layer);
  free(m->embedding);
  free(m->norm);
  free(m->head);
}

/* ---- the state of one sequence ---- */

typedef struct sequence {
  const model* m;
  lazyprune_session* session;
  uint32_t* ids;          /* (known) */
  double *keys, *values;  /* (layers, max_tokens, kv_heads, head_dim): row t belongs to token t */
  double *aux, *waiting;  /* (slots, hidden): the Aux Cache, and the rows that chunks left for a later step */
  unsigned char* touched; /* (layers, max_tokens): bits of the enum below, for the next line of the trace */
  float* scores;          /* (layers, max_tokens): the mean of the attention over heads, if was_scored is set */
} sequence;
enum { was_active = 1, was_row = 2, was_revived = 4, was_scored = 8 };

static double* copy(const double* from, size_t count) { return memcpy(numbers(count), from, count * sizeof *from); }

static sequence new_sequence(const model* m, lazyprune_session* session) {
  const size_t kv = m->layers * m->max_tokens * m->kv_heads * m->head_dim, rows = m->max_tokens * m->hidden;
  const sequence s = {m,
                      session,
                      room(m->max_tokens, sizeof(uint32_t)),
                      numbers(kv),
                      numbers(kv),
                      numbers(rows),
                      numbers(rows),
                      room(m->layers * m->max_tokens, 1),
                      room(m->layers * m->max_tokens, sizeof(float))};
  return s;
}

/* Returns a sequence that continues independently of `from`. This engine copies the memory. A real engine shares
 * the memory until it is written. */
static sequence fork_sequence(const sequence* from) {
  const model* m = from->m;
  const size_t kv = m->layers * m->max_tokens * m->kv_heads * m->head_dim, rows = m->max_tokens * m->hidden;
  sequence s = {m,
                NULL,
                room(m->max_tokens, sizeof(uint32_t)),
                copy(from->keys, kv),
                copy(from->values, kv),
                copy(from->aux, rows),
                copy(from->waiting, rows),
                room(m->layers * m->max_tokens, 1),
                room(m->layers * m->max_tokens, sizeof(float))};
  memcpy(s.ids, from->ids, m->max_tokens * sizeof *s.ids);
  memcpy(s.touched, from->touched, m->layers * m->max_tokens);
  must(lazyprune_session_clone(from->session, &s.session));
  return s;
}

static void free_sequence(sequence* s) {
  lazyprune_session_free(s->session);
  free(s->ids);
  free(s->keys);
  free(s->values);
  free(s->aux);
  free(s->waiting);
  free(s->touched);
  free(s->scores);
}

/* ---- the mathematics ---- */

static void norm_of(const double* x, const double* weight, size_t n, double epsilon, double* out) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const double scale = 1 / sqrt(sum / (double)n + epsilon);
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

static void product(const double* x, const double* weight, size_t in, size_t out, double* y) {
  memset(y, 0, out * sizeof *y);
  for (size_t i = 0; i < in; ++i)
    for (size_t o = 0; o < out; ++o) y[o] += weight[i * out + o] * x[i];
}

/* Applies RoPE with the token's position in the text. A token keeps this position even if layers skipped it. */
static void rope(const model* m, double* x, size_t heads, uint32_t position) {
  const size_t half = m->head_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = position * pow(m->rope_base, -2.0 * (double)i / (double)m->head_dim), c = cos(angle), s = sin(angle);
    for (size_t h = 0; h < heads; ++h) {
      double *a = x + h * m->head_dim + i, *b = a + half;
      const double before = *a;
      *a = before * c - *b * s;
      *b = *b * c + before * s;
    }
  }
}

/* One query attends to the active tokens up to `token`. Writes the probabilities to `probabilities` (heads, active), and the attended
 * values to `out` (heads, head_dim). */
static void attend(const sequence* s, size_t layer, const double* query, uint32_t token, const lazyprune_plan* plan, double* probabilities,
                   double* out) {
  const model* m = s->m;
  const size_t width = m->kv_heads * m->head_dim, active = plan->active_count;
  for (size_t h = 0; h < m->heads; ++h) {
    double *p = probabilities + h * active, most = -HUGE_VAL, sum = 0;
    const size_t kv_head = h * m->kv_heads / m->heads;
    size_t seen = 0;
    for (; seen < active && plan->active[seen] <= token; ++seen) {
      const double* key = s->keys + (layer * m->max_tokens + plan->active[seen]) * width + kv_head * m->head_dim;
      double dot = 0;
      for (size_t d = 0; d < m->head_dim; ++d) dot += query[h * m->head_dim + d] * key[d];
      p[seen] = dot / sqrt((double)m->head_dim);
      most = p[seen] > most ? p[seen] : most;
    }
    for (size_t i = 0; i < seen; ++i) sum += p[i] = exp(p[i] - most);
    for (size_t i = seen; i < active; ++i) p[i] = 0;
    memset(out + h * m->head_dim, 0, m->head_dim * sizeof *out);
    for (size_t i = 0; i < seen; ++i) {
      const double* value = s->values + (layer * m->max_tokens + plan->active[i]) * width + kv_head * m->head_dim;
      p[i] /= sum;
      for (size_t d = 0; d < m->head_dim; ++d) out[h * m->head_dim + d] += p[i] * value[d];
    }
  }
}

/* ---- one step, as the session plans it ---- */

typedef struct scratch {
  double *x, *gathered;          /* (rows, hidden): the layer's input, later its output */
  double *query, *probabilities; /* for one row: (heads, head_dim) and (heads, active) */
  float *shown, *shown_queries, *shown_keys;
} scratch;

static float* floats(float* to, const double* from, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = (float)from[i];
  return to;
}

/* Gathers keys or values of the active tokens into `to` (active, kv_heads, head_dim). */
static float* gather_cache(const sequence* s, const double* cache, const lazyprune_plan* plan, float* to) {
  const size_t width = s->m->kv_heads * s->m->head_dim;
  for (size_t i = 0; i < plan->active_count; ++i)
    floats(to + i * width, cache + (plan->layer * s->m->max_tokens + plan->active[i]) * width, width);
  return to;
}

/* Returns how many queries the evidence of this layer needs. */
static size_t queries_of(const lazyprune_plan* plan) {
  return plan->wants == LAZYPRUNE_WINDOW ? plan->window : plan->wants == LAZYPRUNE_PROBES ? plan->probe_rows : 1;
}

/* Returns the evidence that the plan wants. Supports all kinds for which the library's own policies ask. The scratch already has the
 * probabilities and queries of the last rows. */
static lazyprune_evidence look(const sequence* s, const lazyprune_plan* plan, scratch* w, int fused) {
  if (plan->wants == LAZYPRUNE_PROBES) fused = 1; /* the library computes the rows of probes from queries and keys */
  const model* m = s->m;
  const size_t cached = plan->active_count * m->kv_heads * m->head_dim;
  lazyprune_evidence e = LAZYPRUNE_EVIDENCE;
  e.kind = plan->wants;
  e.heads = m->heads;
  e.queries = queries_of(plan);
  e.kv_heads = m->kv_heads;
  e.head_dim = m->head_dim;
  if (plan->wants == LAZYPRUNE_ATTENTION || plan->wants == LAZYPRUNE_WINDOW || plan->wants == LAZYPRUNE_VALUES ||
      plan->wants == LAZYPRUNE_PROBES) {
    e.data = fused ? NULL : w->shown;
    e.data_count = e.queries * m->heads * plan->active_count;
    e.stride = plan->active_count;
    e.query = w->shown_queries;
    e.query_count = e.queries * m->heads * m->head_dim;
    e.keys = gather_cache(s, s->keys, plan, w->shown_keys);
    e.keys_count = cached;
  }
  if (plan->wants == LAZYPRUNE_ATTENTION) /* for the trace: the scores that the scorer last_query_attention computes */
    for (size_t i = 0; i < plan->active_count; ++i) {
      const size_t at = plan->layer * m->max_tokens + plan->active[i];
      float sum = 0;
      for (size_t h = 0; h < m->heads; ++h) sum += w->shown[h * plan->active_count + i];
      s->scores[at] = sum / (float)m->heads;
      s->touched[at] |= was_scored;
    }
  if (plan->wants == LAZYPRUNE_VALUES) {
    e.values = gather_cache(s, s->values, plan, w->shown_keys + cached);
    e.values_count = cached;
    e.values_stride = m->kv_heads * m->head_dim;
  }
  if (plan->wants == LAZYPRUNE_KEYS) {
    e.data = gather_cache(s, s->keys, plan, w->shown_keys);
    e.data_count = cached;
    e.stride = m->kv_heads * m->head_dim;
  }
  return e;
}

/* Computes a step for the new tokens `ids` (count). Unless the step is a chunk, writes the last token's hidden state after all layers to
 * `last`. */
static void forward(sequence* s, const uint32_t* ids, size_t count, uint32_t phase, size_t outputs, int fused, double* last) {
  const model* m = s->m;
  const size_t width = m->kv_heads * m->head_dim, heads = m->heads * m->head_dim, hidden = m->hidden;
  lazyprune_session_state state = LAZYPRUNE_SESSION_STATE;
  must(lazyprune_session_get_state(s->session, &state));
  memcpy(s->ids + state.known, ids, count * sizeof *ids);
  const size_t known = state.known + count;

  lazyprune_request request = LAZYPRUNE_REQUEST;
  uint32_t layers;
  request.tokens = count;
  request.phase = phase;
  request.outputs = outputs;
  must(lazyprune_step_begin(s->session, &request, &layers));

  enum { most_queries = 64 };
  scratch w = {numbers(known * hidden),
               numbers(known * hidden),
               numbers(heads),
               numbers(m->heads * known),
               room(most_queries * m->heads * known, sizeof(float)),
               room(most_queries * heads, sizeof(float)),
               room(2 * known * width, sizeof(float))};
  double *normed = numbers(hidden), *attended = numbers(heads), *out = numbers(hidden), *gate = numbers(m->feed_forward),
         *up = numbers(m->feed_forward);

  for (uint32_t l = 0; l < layers; ++l) {
    const layer_weights* weights = &m->layer[l];
    lazyprune_plan plan = LAZYPRUNE_PLAN;
    must(lazyprune_step_enter(s->session, l, &plan));
    for (size_t i = 0; i < plan.active_count; ++i) s->touched[l * m->max_tokens + plan.active[i]] |= was_active;

    /* 1. Gather the rows: new tokens, rows of the previous layer, rows from the Aux Cache, and rows that a chunk left. */
    for (size_t r = 0; r < plan.rows_count; ++r) {
      const lazyprune_source source = plan.sources[r];
      const double* row = source.origin == LAZYPRUNE_EMBEDDING ? m->embedding + s->ids[source.index] * hidden
                          : source.origin == LAZYPRUNE_CARRIED ? w.x + source.index * hidden
                          : source.origin == LAZYPRUNE_STORED  ? s->aux + source.index * hidden
                                                               : s->waiting + source.index * hidden;
      memcpy(w.gathered + r * hidden, row, hidden * sizeof *row);
      s->touched[l * m->max_tokens + plan.rows[r]] |= was_row | (source.origin == LAZYPRUNE_STORED ? was_revived : 0);
    }
    double* before = w.x;
    w.x = w.gathered;
    w.gathered = before;

    /* 2. Compute keys and values of all rows before any row attends, because new rows attend to the keys of revived rows. */
    for (size_t r = 0; r < plan.rows_count; ++r) {
      const size_t at = (l * m->max_tokens + plan.rows[r]) * width;
      norm_of(w.x + r * hidden, weights->attention_norm, hidden, m->epsilon, normed);
      product(normed, weights->k, hidden, width, s->keys + at);
      product(normed, weights->v, hidden, width, s->values + at);
      rope(m, s->keys + at, m->kv_heads, plan.rows[r]);
    }

    /* 3. Compute the rest of the layer for the last `finish` rows. */
    const size_t queries = queries_of(&plan);
    if (queries > most_queries) stop("policy", "expected a window of 64 queries at most");
    for (size_t r = plan.rows_count - plan.finish; r < plan.rows_count; ++r) {
      double* x = w.x + r * hidden;
      norm_of(x, weights->attention_norm, hidden, m->epsilon, normed);
      product(normed, weights->q, hidden, heads, w.query);
      rope(m, w.query, m->heads, plan.rows[r]);
      attend(s, l, w.query, plan.rows[r], &plan, w.probabilities, attended);
      if (plan.rows_count - r <= queries) { /* the policy may want the attention of these queries */
        const size_t q = queries - (plan.rows_count - r);
        floats(w.shown + q * m->heads * plan.active_count, w.probabilities, m->heads * plan.active_count);
        floats(w.shown_queries + q * heads, w.query, heads);
      }
      product(attended, weights->o, heads, hidden, out);
      for (size_t i = 0; i < hidden; ++i) x[i] += out[i];
      norm_of(x, weights->feed_forward_norm, hidden, m->epsilon, normed);
      product(normed, weights->gate, hidden, m->feed_forward, gate);
      product(normed, weights->up, hidden, m->feed_forward, up);
      for (size_t i = 0; i < m->feed_forward; ++i) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
      product(gate, weights->down, m->feed_forward, hidden, out);
      for (size_t i = 0; i < hidden; ++i) x[i] += out[i];
    }

    /* 4. Show the evidence that the policy wants. Then save the rows that the session asks for. */
    const lazyprune_evidence evidence = look(s, &plan, &w, fused);
    lazyprune_spills spills = LAZYPRUNE_SPILLS;
    const size_t rows = plan.rows_count;
    must(lazyprune_step_leave(s->session, &evidence, &spills));
    for (size_t i = 0; i < spills.count; ++i) {
      const lazyprune_spill* spill = &spills.items[i];
      memcpy((spill->to == LAZYPRUNE_WAITING ? s->waiting : s->aux) + spill->slot * hidden,
             (spill->origin == LAZYPRUNE_WAITING ? s->waiting : w.x) + spill->row * hidden, hidden * sizeof(double));
    }
    if (last && l + 1 == m->layers) memcpy(last, w.x + (rows - 1) * hidden, hidden * sizeof(double));
  }
  must(lazyprune_step_finish(s->session));

  double* all[] = {w.x, w.gathered, w.query, w.probabilities, normed, attended, out, gate, up};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  free(w.shown);
  free(w.shown_queries);
  free(w.shown_keys);
}

/* Computes the logits (vocabulary) of a hidden state after all layers. */
static void logits_of(const model* m, const double* x, double* logits) {
  double* normed = numbers(m->hidden);
  norm_of(x, m->norm, m->hidden, m->epsilon, normed);
  product(normed, m->head, m->hidden, m->vocabulary, logits);
  free(normed);
}

/* Returns the id with the greatest logit. Among ids with equal logits, returns the lowest. */
static uint32_t best(const model* m, const double* logits) {
  size_t id = 0;
  for (size_t i = 1; i < m->vocabulary; ++i)
    if (logits[i] > logits[id]) id = i;
  return (uint32_t)id;
}

/* ---- the trace: one JSON object per line. The chunks of a prompt and the step that answers it are one line. ---- */

static void print_positions(const char* key, const unsigned char* touched, size_t known, int bit, const char* end) {
  const char* comma = "";
  printf("\"%s\":[", key);
  for (size_t t = 0; t < known; ++t)
    if (touched[t] & bit) {
      printf("%s%zu", comma, t);
      comma = ",";
    }
  printf("]%s", end);
}

/* Prints the scores of the layer if it has any. */
static void print_scores(const unsigned char* touched, const float* scores, size_t known) {
  const char* before = ",\"scores\":[";
  for (size_t t = 0; t < known; ++t)
    if ((touched[t] & was_scored) && (touched[t] & was_active)) {
      printf("%s%.9g", before, (double)scores[t]);
      before = ",";
    }
  if (*before && before[1] == 0) printf("]");
}

static void print_step(sequence* s, size_t step, const uint32_t* ids, size_t count, size_t known, const double* logits, int full) {
  printf("{\"step\":%zu,\"tokens\":[", step);
  for (size_t i = 0; i < count; ++i) printf(i > 0 ? ",%u" : "%u", (unsigned)ids[i]);
  printf("],\"layers\":[");
  for (size_t l = 0; l < s->m->layers; ++l) {
    unsigned char* touched = s->touched + l * s->m->max_tokens;
    printf(l > 0 ? ",{" : "{");
    print_positions("active", touched, known, was_active, ",");
    print_positions("rows", touched, known, was_row, ",");
    print_positions("revived", touched, known, was_revived, "");
    if (full) print_scores(touched, s->scores + l * s->m->max_tokens, known);
    printf("}");
    memset(touched, 0, s->m->max_tokens);
  }
  printf("],\"next\":%u", (unsigned)best(s->m, logits));
  for (size_t i = 0; full && i < s->m->vocabulary; ++i) printf("%s%.17g", i > 0 ? "," : ",\"logits\":[", logits[i]);
  printf(full ? "]}\n" : "}\n");
}

int main(int argc, char** argv) {
  if (argc < 3) stop("arguments", "expected MODEL_FOLDER IDS_FILE [policy TEXT] [tokens N] [chunk N] [fork N] [fused] [full]");
  const char* policy = "lazyllm";
  size_t tokens = 8, chunk = 0, fork = 0;
  int fused = 0, full = 0;
  for (int i = 3; i < argc; ++i) {
    if (strcmp(argv[i], "fused") == 0) {
      fused = 1;
    } else if (strcmp(argv[i], "full") == 0) {
      full = 1;
    } else if (i + 1 == argc) {
      stop(argv[i], "expected a value");
    } else if (strcmp(argv[i], "policy") == 0) {
      policy = argv[++i];
    } else {
      const char* name = argv[i];
      size_t* value = strcmp(name, "tokens") == 0  ? &tokens
                      : strcmp(name, "chunk") == 0 ? &chunk
                      : strcmp(name, "fork") == 0  ? &fork
                                                   : NULL;
      if (!value) stop(name, "expected policy, tokens, chunk, fork, fused or full");
      *value = strtoul(argv[++i], NULL, 10);
    }
  }

  model m = load_model(argv[1]);
  uint32_t* prompt = room(m.max_tokens, sizeof *prompt);
  size_t count = 0;
  char *text = read_file("", argv[2], NULL), *at = text;
  for (char* end; count < m.max_tokens; at = end) {
    const unsigned long id = strtoul(at, &end, 10);
    if (end == at) break;
    if (id >= m.vocabulary) stop(argv[2], "expected ids of the model's vocabulary");
    prompt[count++] = (uint32_t)id;
  }
  free(text);
  if (count == 0 || count + tokens > m.max_tokens) stop(argv[2], "expected ids that fit with the answer into the model's positions");

  lazyprune_session_options options = LAZYPRUNE_SESSION_OPTIONS;
  lazyprune_session* session;
  options.layers = (uint32_t)m.layers;
  options.max_tokens = m.max_tokens;
  must(lazyprune_session_create(NULL, policy, &options, &session));
  sequence s = new_sequence(&m, session);

  /* Read the prompt. A chunk has no output, so nothing is dropped, and any question can follow it. */
  double *last = numbers(m.hidden), *logits = numbers(m.vocabulary);
  size_t read = 0;
  if (fork > 0 && fork < count) {
    forward(&s, prompt, fork, LAZYPRUNE_PREFILL, 0, fused, NULL);
    sequence forked = fork_sequence(&s);
    free_sequence(&s);
    s = forked;
    read = fork;
  }
  for (; chunk > 0 && count - read > chunk; read += chunk) forward(&s, prompt + read, chunk, LAZYPRUNE_PREFILL, 0, fused, NULL);
  forward(&s, prompt + read, count - read, LAZYPRUNE_PREFILL, 1, fused, last);
  logits_of(&m, last, logits);
  print_step(&s, 0, prompt, count, count, logits, full);

  for (size_t i = 1; i < tokens; ++i) {
    const uint32_t id = best(&m, logits);
    forward(&s, &id, 1, LAZYPRUNE_DECODE, 1, fused, last);
    logits_of(&m, last, logits);
    print_step(&s, i, &id, 1, count + i, logits, full);
  }

  lazyprune_statistics cost = LAZYPRUNE_STATISTICS;
  must(lazyprune_session_get_statistics(s.session, &cost));
  fprintf(stderr, "%llu rows computed, %llu of them revived; the dense model computes %llu\n", (unsigned long long)cost.rows,
          (unsigned long long)cost.revived, (unsigned long long)cost.dense_rows);
  free_sequence(&s);
  free(prompt);
  free(last);
  free(logits);
  free_model(&m);
  return 0;
}
