// SPDX-License-Identifier: MIT
#include "commands/serve.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/engine.hpp"
#include "engine/memory_forecast.hpp"
#include "models/model_choice.hpp"
#include "models/sessions.hpp"
#include "pages/html.hpp"
#include "serve/chat_page.hpp"
#include "serve/completion_answer.hpp"
#include "serve/completion_request.hpp"
#include "serve/request_log.hpp"
#include "serve/scheduler.hpp"
#include "terminal/interrupts.hpp"
#include "words/chat_prompt.hpp"
#include "words/model_words.hpp"

#include <lazyprune/core/error.hpp>
#include <lazyprune/files/line_reader.hpp>
#include <lazyprune/files/output_file.hpp>
#include <lazyprune/files/utf8.hpp>
#include <lazyprune/model/layers_of.hpp>
#include <lazyprune/text/end_of_generation.hpp>
#include <lazyprune/text/jinja/json_reader.hpp>
#include <lazyprune/version.hpp>

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t least_pruned = 512;      // the default of --least-tokens
constexpr std::size_t completion_tokens = 16;  // the API's default for /v1/completions

/// The API keys. Without keys, every request is allowed.
class api_keys {
 public:
  explicit api_keys(const std::string& file) {
    if (file.empty()) return;
    line_reader lines(file, 4096);
    while (const auto line = lines.next()) {
      const std::string_view key = without_blanks(lines.number() == 1 ? without_utf8_mark(*line) : *line);
      if (std::ranges::any_of(key, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }))
        throw error("--api-key-file", file + ": line " + std::to_string(lines.number()), "a key without control characters", "one");
      if (!key.empty()) keys_.emplace_back(key);
    }
    if (keys_.empty()) throw error("--api-key-file", file, "a key a line", "none");
  }

  /// Takes as long for a wrong key as for a right one.
  bool allow(std::string_view authorization) const {
    if (keys_.empty()) return true;
    constexpr std::string_view scheme = "bearer ";  // in any case, see RFC 9110, section 11.1
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    const bool has_scheme = std::ranges::equal(authorization.substr(0, scheme.size()), scheme, {}, lower);
    const std::string_view given = has_scheme ? authorization.substr(scheme.size()) : std::string_view();
    bool allowed = false;
    for (const std::string& key : keys_) {
      unsigned different = given.size() != key.size();
      for (std::size_t i = 0; i < key.size(); ++i)
        different |= static_cast<unsigned char>(key[i]) ^ static_cast<unsigned char>(i < given.size() ? given[i] : '\0');
      allowed |= different == 0;
    }
    return allowed;
  }

 private:
  /// An editor may leave blanks and a carriage return around a key. No client can send them.
  static std::string_view without_blanks(std::string_view line) {
    constexpr const char* blanks = " \t\r";
    const std::size_t begin = line.find_first_not_of(blanks);
    return begin == line.npos ? std::string_view() : line.substr(begin, line.find_last_not_of(blanks) + 1 - begin);
  }

  std::vector<std::string> keys_;
};

void send_json(const http_reply& reply, unsigned status, const json& answer, http_reply::headers more = {}) {
  reply.send(status, "application/json", dumped(answer), std::move(more));
}

class serving {
 public:
  serving(const serve_flags& flags, const policy_registry& policies)
      : flags_(flags),
        policies_(policies),
        model_(flags.model),
        keys_(flags.key_file),
        log_(flags.log),
        chosen_(policy_for(flags.policy, model_, policies)),
        words_(model_, flags.words),
        tokens_(words_.tokenizer_for("serve")),
        context_(model_.context(flags.context)),
        name_(model_name(model_.path())) {
    check(flags_.backend);
    if (!chosen_.note.empty())
      std::cerr << chosen_.note << (model_.has_pruning_file() ? ", except on requests with `pruning`" : "") << std::endl;
    chat_.emplace([&] { return words_.find_chat(); });
    // Without these flags a server whose model has no usable template still answers requests with plain prompts.
    const std::string_view flag_of_chats = flags_.documents ? "--document-roles" : flags_.words.given();
    if (!flag_of_chats.empty() && !chat_->get()) words_.chat_for(flag_of_chats);
    ends_ = end_of_generation(tokens_, model_.config().eos);
    new_session(with_defaults(chosen_.spec, {}), model_.config(), policies_);  // throws here if the flags do not fit the model
    if (flags_.cache_file.empty()) return;
    output_file{flags_.cache_file};  // throws here if the file cannot be written
    identity_ = identity();          // now, because the files may be replaced while the server runs
  }

  int run() {
    http_options http = flags_.http;
    http.all_body_bytes = std::max(http.all_body_bytes, 2 * http.body_bytes);
    http.allows = [this](std::string_view path, std::string_view authorization) {
      return path == "/" || path == "/health" || keys_.allow(authorization);
    };
    http.at_once = [this](const http_request& request, const http_reply& reply) { return answer_at_once(request, reply); };
    http.refused = [this](const http_request& request, unsigned status) { note_unread(request, status); };
    http.refusal =
        dumped(error_json("send a key of the server as \"Authorization: Bearer KEY\"", "invalid_request_error", {}, "invalid_api_key"));
    server_.emplace(http, [this](http_request request, http_reply reply) { answer(std::move(request), reply); });
    // The model's own limit may be more than any request needs. So only a context that -c asks for must fit with its keys and values.
    const memory_forecast forecast = forecast_memory(model_, flags_.backend, context_, flags_.context > 0 ? context_ : 0);
    if (!flags_.force_memory) check_memory(forecast, flags_.backend);
    engine_ = load_engine(flags_.backend, model_);
    kv_token_ = engine_->kv_token_bytes();
    scheduler_.emplace(*engine_, limits());
    load_cache();
    std::cerr << "serving " << name_ << " at http://" << flags_.http.host << ':' << server_->port() << std::endl;
    server_->run(flags_.drain, [] { std::cerr << "ending: no new connections, and open requests are answered" << std::endl; });
    server_.reset();
    remove_files_when_ended();  // a further signal ends the program, even while it writes the cache
    remove_files_when_interrupted();
    scheduler_->end();
    if (!flags_.cache_file.empty()) scheduler_->save_cache(flags_.cache_file, identity_);
    return 0;
  }

 private:
  /// A tenth of the memory that is free after loading stays free. The cache gets its part, and the sequences get the rest.
  scheduler_limits limits() const {
    constexpr std::uint64_t if_unknown = std::uint64_t{4} << 30;
    const auto free = memory_for_sequences(flags_.backend, engine_->weight_bytes());
    scheduler_limits limits{.waiting = flags_.queue, .together = flags_.sequences};
    limits.cache_bytes = flags_.cache_mebibytes ? *flags_.cache_mebibytes << 20 : static_cast<std::size_t>(free.value_or(if_unknown) / 4);
    limits.bytes = std::numeric_limits<std::size_t>::max();
    if (free && !flags_.force_memory) {
      const auto usable = static_cast<std::size_t>(*free - *free / 10);
      if (limits.cache_bytes >= usable)
        throw error("--cache-memory", "", "less than the " + std::to_string(usable >> 20) + " MiB that are free for caches and sequences",
                    std::to_string(limits.cache_bytes >> 20), error_code::no_memory);
      limits.bytes = usable - limits.cache_bytes;
    }
    return limits;
  }

  void load_cache() {
    if (flags_.cache_file.empty() || !std::filesystem::exists(flags_.cache_file)) return;
    if (!scheduler_->load_cache(flags_.cache_file, identity_))
      std::cerr << flags_.cache_file
                << ": computed by another version, model or setting of the program, so the server does not use it, and replaces it "
                << "when it ends" << std::endl;
  }

  /// Names everything that the rows of a prompt depend on: the model's files, and how this program computes.
  std::string identity() const {
    return std::string(LAZYPRUNE_VERSION_STRING) + ' ' + model_.fingerprint() + ' ' + flags_.backend.backend + ' ' +
           std::string(isa_of(flags_.backend)) + ' ' + flags_.backend.dtype + ' ' + flags_.backend.kv +
           (flags_.backend.exact ? " exact " : " ") + model_.state_of_files();
  }

  static bool is(const http_request& request, std::string_view method, std::string_view path) {
    return (request.method == method || (method == "GET" && request.method == "HEAD")) && request.path == path;
  }

  /// Logs and counts a request for a completion that is refused before its body is read.
  void note_unread(const http_request& request, unsigned status) {
    if (!is(request, "POST", "/v1/chat/completions") && !is(request, "POST", "/v1/completions")) return;
    if (status == 503) ++refused_unread_;
    log_.add({{"path", request.path}, {"status", status}, {"code", status == 401 ? json("invalid_api_key") : json()}});
  }

  /// Answers those who watch the server, who must not wait while a long prompt is tokenized.
  bool answer_at_once(const http_request& request, const http_reply& reply) const {
    if (is(request, "GET", "/health"))
      send_json(reply, 200, {{"status", "ok"}});
    else if (is(request, "GET", "/metrics"))
      reply.send(200, "text/plain; version=0.0.4; charset=utf-8", metrics());
    else
      return false;
    return true;
  }

  void answer(http_request request, const http_reply& reply) {
    if (is(request, "GET", "/"))
      return reply.send(200, "text/html; charset=utf-8", chat_page(),
                        {{"Content-Security-Policy", content_policy(page_scripts::inline_with_requests) + "; frame-ancestors 'none'"}});
    try {
      if (is(request, "GET", "/v1/models")) return send_json(reply, 200, {{"object", "list"}, {"data", json::array({about_model()})}});
      if (is(request, "POST", "/tokenize")) return tokenize(request.body, reply);
      if (is(request, "POST", "/v1/chat/completions")) return complete(request.body, true, reply);
      if (is(request, "POST", "/v1/completions")) return complete(request.body, false, reply);
    } catch (const std::exception& fault) {
      const fault_answer known = answer_to(fault);
      return send_json(reply, known.status, known.body);
    }
    constexpr std::string_view gets[] = {"/", "/health", "/v1/models", "/metrics"},
                               posts[] = {"/tokenize", "/v1/chat/completions", "/v1/completions"};
    const auto allow = [&](const char* method) {
      send_json(reply, 405, error_json("use " + std::string(method) + " for " + request.path, "invalid_request_error"),
                {{"Allow", method}});
    };
    if (std::ranges::find(gets, request.path) != std::end(gets)) return allow("GET, HEAD");
    if (std::ranges::find(posts, request.path) != std::end(posts)) return allow("POST");
    send_json(reply, 404, error_json("there is no " + request.path + " here", "invalid_request_error", {}, "not_found"));
  }

  json about_model() const {
    const bool has_template = !chat_->fault() && chat_->get();
    return {{"id", name_},
            {"object", "model"},
            {"created", started_},
            {"owned_by", "lazyprune"},
            {"max_model_len", context_},
            {"has_chat_template", has_template}};
  }

  std::string metrics() const {
    const scheduler_counts now = scheduler_->counts();
    std::string text;
    const auto add = [&](const char* name, const char* type, const char* help, std::size_t value) {
      const std::string full = std::string("lazyprune_") + name;
      text += "# HELP " + full + ' ' + help + "\n# TYPE " + full + ' ' + type + '\n' + full + ' ' + std::to_string(value) + '\n';
    };
    add("steps_total", "counter", "Steps of the batch.", now.steps);
    add("answers_total", "counter", "Answers that ended without a fault.", now.ended);
    add("answers_failed_total", "counter", "Answers that failed.", now.failed);
    add("answers_cancelled_total", "counter", "Answers whose client left.", now.cancelled);
    add("answers_refused_total", "counter", "Requests refused with status 429 or 503.", now.refused + refused_unread_);
    add("prompt_tokens_total", "counter", "Prompt tokens of ended answers.", now.prompt_tokens);
    add("cached_tokens_total", "counter", "Prompt tokens that came from the cache.", now.cached_tokens);
    add("generated_tokens_total", "counter", "Generated tokens of ended answers.", now.generated_tokens);
    add("rows_total", "counter", "Rows computed for ended answers. A row is one token in one layer.", now.rows);
    add("dense_rows_total", "counter", "Rows that the dense model would have computed for them.", now.dense_rows);
    add("answers_running", "gauge", "Answers in the batch.", now.running);
    add("answers_waiting", "gauge", "Answers that wait.", now.waiting);
    add("sequence_bytes", "gauge", "Memory counted for the sequences in the batch.", now.bytes);
    add("cache_bytes", "gauge", "Memory of the kept beginnings of prompts and conversations.", now.cache_bytes);
    add("connections", "gauge", "Open connections.", server_->connections());
    return text;
  }

  void tokenize(const std::string& body, const http_reply& reply) {
    const tokenize_request asked = read_tokenize_request(body);
    const std::vector<token_id> ids = asked.prompt ? encoded(*asked.prompt) : prompt_of(asked.messages, asked.tools).ids;
    send_json(reply, 200, {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", context_}});
  }

  /// Calls work(), which uses what a client sent. An `error` then names the request, so that the client gets status 400.
  template <class Work>
  static auto for_request(const Work& work) {
    try {
      return work();
    } catch (const error& fault) {
      if (fault.file() == "request") throw;
      throw error("request", fault);
    }
  }

  std::vector<token_id> encoded(const std::string& prompt) const {
    return for_request([&] { return tokens_.encode(prompt, special_tokens::spelled_out); });
  }

  /// Puts a chat into the model's template.
  chat_prompt prompt_of(const std::string& messages, const std::string& tools) const { return rendered(chat_of(messages, tools)); }

  chat_prompt rendered(chat_request chat) const {
    const chat_words& words = chat_template();
    return for_request(
        [&] { return lazyprune::program::prompt_of(words, tokens_, std::move(chat), flags_.documents.value_or(document_roles{})); });
  }

  const chat_words& chat_template() const {
    if (!chat_->get()) throw error("request", "messages", "a model with a chat template", "none in " + model_.path().string());
    return *chat_->get();
  }

  static chat_request chat_of(const std::string& messages, const std::string& tools) {
    return for_request([&] {
      chat_request request;
      request.set_messages(messages, "messages");
      if (!tools.empty()) request.set("tools", jinja::read_json(tools, "tools", chat_request::most_bytes));
      request.set_add_generation_prompt(true);
      return request;
    });
  }

  /// Returns the policy of a request. It never prunes the positions in `kept`.
  static policy_spec with_defaults(policy_spec spec, const position_spans& kept) {
    if (spec.preset != dense_policy && !spec.least_tokens) spec.least_tokens = least_pruned;
    return policy_for_prompt(std::move(spec), kept);
  }

  policy_spec policy_of(const completion_request& asked, const position_spans& kept) const {
    const policy_spec spec = asked.dense     ? dense_spec()
                             : asked.pruning ? policy_of_request(*asked.pruning, model_, policies_)
                                             : chosen_.spec;
    return with_defaults(spec, kept);
  }

  /// Returns the earlier turns of a chat whose sequence goes on. If there are any, sets prompt.kept to the kept positions of the first
  /// turn, because a session's kept positions cannot change. Some templates move a text when a turn is added: Mistral's write the tools
  /// before the last user message. Then the first turn's tokens do not begin the chat, so the chat counts as one without earlier turns.
  std::vector<earlier_turn> turns_of(const completion_request& asked, chat_prompt& prompt) const {
    const chat_request chat = chat_of(asked.messages, asked.tools);
    if (!has_answers(chat)) return {};
    std::vector<earlier_turn> turns = earlier_turns(chat_template(), tokens_, chat, prompt.ids, ends_);
    if (turns.empty()) return {};
    chat_prompt first = rendered(first_turn(chat));
    // Before an answer, the template may write another text than before the place where the model goes on.
    const std::size_t shared = std::min(first.ids.size(), turns.front().prompt_end);
    if (!std::ranges::equal(std::span(first.ids).first(shared), std::span(prompt.ids).first(shared))) return {};
    prompt.kept = std::move(first.kept);
    return turns;
  }

  using log_line = std::function<void(json)>;

  /// Begins to answer a request for a completion, which becomes a line of the log.
  void complete(const std::string& body, bool chat, const http_reply& reply) {
    const std::string id = (chat ? "chatcmpl-" : "cmpl-") + std::to_string(started_) + '-' + std::to_string(++requests_);
    // An answer may end at the moment when its client leaves. Then only the first of both is the request's line.
    const log_line log = [this, id, chat, logged = std::make_shared<std::atomic_flag>()](json fields) {
      if (logged->test_and_set()) return;
      json line{{"id", id}, {"path", chat ? "/v1/chat/completions" : "/v1/completions"}};
      line.update(fields);
      log_.add(std::move(line));
    };
    try {
      complete(body, chat, id, log, reply);
    } catch (const std::exception& fault) {
      const fault_answer known = answer_to(fault);
      log({{"status", known.status}, {"code", known.body["error"]["code"]}});
      throw;
    }
  }

  void complete(const std::string& body, bool chat, const std::string& id, const log_line& log, const http_reply& reply) {
    const auto deadline = std::chrono::steady_clock::now() + flags_.deadline;
    const completion_request asked = read_completion_request(body, chat);
    chat_prompt prompt;
    if (asked.continues && (!chat || asked.choices > 1))
      throw error("request", "pruning.continue", "a chat with one choice", chat ? "several choices" : "a prompt without turns",
                  error_code::unsupported);
    if (chat)
      prompt = prompt_of(asked.messages, asked.tools);
    else if (asked.prompt)
      prompt.ids = encoded(*asked.prompt);
    else
      prompt.ids = asked.ids;
    if (prompt.ids.empty() || prompt.ids.size() >= context_)
      throw error("request", chat ? "messages" : "prompt", "1 to " + std::to_string(context_ - 1) + " tokens",
                  std::to_string(prompt.ids.size()), prompt.ids.empty() ? error_code::bad_input : error_code::no_room);
    const std::size_t room = context_ - prompt.ids.size();
    if (asked.predict && *asked.predict > room)
      throw error("request", "max_tokens",
                  "at most " + std::to_string(room) + ", because the prompt has " + std::to_string(prompt.ids.size()) + " of " +
                      std::to_string(context_) + " tokens",
                  std::to_string(*asked.predict), error_code::no_room);

    const auto answer = std::make_shared<completion_answer>(asked, chat, id, name_, prompt.ids, tokens_, reply);
    std::optional<continued_conversation> conversation;
    if (asked.continues) conversation.emplace().turns = turns_of(asked, prompt);
    const policy_spec policy = for_request([&] { return policy_of(asked, prompt.kept); });
    if (conversation) conversation->policy = flags_of(policy, layers_of(model_.config()), policies_);
    const any_session session = for_request([&] { return new_session(policy, model_.config(), policies_); });
    std::vector<scheduled_answer> choices;
    const std::uint64_t seed = asked.seed ? *asked.seed : (std::uint64_t{std::random_device{}()} << 32 | std::random_device{}());
    for (std::size_t i = 0; i < asked.choices; ++i) {
      generation_options options;
      options.max_new = asked.predict.value_or(std::min(chat ? flags_.predict : completion_tokens, room));
      options.expected = prompt.ids.size() + options.max_new;
      options.sampler = asked.sampler;
      options.sampler.seed = seed + i;
      options.eos = ends_;
      answer->listen(i, options);
      const std::size_t bytes = kv_token_ * (prompt.ids.size() + options.max_new);
      choices.push_back({session.clone(), prompt.ids, std::move(options), bytes,
                         [answer, i](const ended_answer& result) { answer->ended(i, result); },
                         [answer](std::exception_ptr fault) { answer->failed(fault); }});
      if (flags_.deadline.count() > 0) choices.back().deadline = deadline;
      choices.back().conversation = conversation;
      choices.back().alternative = i > 0;
    }
    answer->log_to([this, log, chat, own = answer.get(),
                    prompt = flags_.log_texts ? (chat ? asked.messages : asked.prompt.value_or("")) : ""](json fields) {
      if (flags_.log_texts) fields.update({{chat ? "messages" : "prompt", prompt}, {"answers", own->texts()}});
      log(std::move(fields));
    });
    const auto tickets = scheduler_->add(std::move(choices));
    if (!tickets) {
      log({{"status", 429}, {"code", "queue_full"}});
      return send_json(reply, 429, error_json("too many requests wait; try again later", "rate_limit_error", {}, "queue_full"),
                       {{"Retry-After", "1"}});
    }
    reply.when_lost([this, log, tickets = *tickets] {
      log({{"status", 499}, {"code", "client_left"}});  // as nginx logs it
      for (const scheduler::ticket each : tickets) scheduler_->cancel(each);
    });
  }

  serve_flags flags_;
  const policy_registry& policies_;
  opened_model model_;
  api_keys keys_;
  request_log log_;
  chosen_policy chosen_;
  model_words words_;
  const tokenizer& tokens_;
  std::size_t context_;
  std::string name_;
  std::time_t started_ = std::time(nullptr);
  std::optional<found_once<chat_words>> chat_;
  std::vector<token_id> ends_;
  std::string identity_;  // of the rows in --cache-file
  std::unique_ptr<lazyprune::program::engine> engine_;
  std::size_t kv_token_ = 0, requests_ = 0;
  std::size_t refused_unread_ = 0;  // with status 503; only the thread of `server_` uses it
  std::optional<scheduler> scheduler_;
  std::optional<http_server> server_;
};

}  // namespace

int serve(const serve_flags& flags, const policy_registry& policies) { return serving(flags, policies).run(); }

}  // namespace program
}  // namespace lazyprune
