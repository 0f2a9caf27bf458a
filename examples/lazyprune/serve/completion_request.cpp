// SPDX-License-Identifier: MIT
#include "serve/completion_request.hpp"

#include <cmath>
#include <concepts>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "serve/client_json.hpp"

namespace lazyprune {
namespace program {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t most_choices = 16, most_stops = 16, most_top_logprobs = 20;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

/// The fields of one JSON object. `end` refuses fields that were not taken, so that no unknown field is ignored.
class request_fields {
 public:
  request_fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw error("request", where_, "an object", shown(object));
  }

  [[noreturn]] void refuse(const std::string& name, std::string_view expected, std::string_view found,
                           error_code code = error_code::bad_input) const {
    throw error("request", place(name), expected, found, code);
  }

  /// Returns the field, or null if it is absent or null.
  const json* take(const std::string& name) {
    taken_.insert(name);
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  template <class Number>
  std::optional<Number> number(const std::string& name, Number least, Number most) {
    const json* const value = take(name);
    if (!value) return std::nullopt;
    bool fits = false;
    if constexpr (std::floating_point<Number>) {
      fits = value->is_number() && value->get<double>() >= least && value->get<double>() <= most;
    } else {
      fits = value->is_number_unsigned() && value->get<std::uint64_t>() >= least && value->get<std::uint64_t>() <= most;
    }
    if (!fits) {
      const auto text = [](Number n) { return json(n).dump(); };
      const std::string kind = std::floating_point<Number> ? "a number from " : "a whole number from ";
      refuse(name, kind + text(least) + (most < std::numeric_limits<Number>::max() ? " to " + text(most) : ""), shown(*value));
    }
    return value->get<Number>();
  }

  bool flag(const std::string& name, bool otherwise) {
    const json* const value = take(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) refuse(name, "true or false", shown(*value));
    return value->get<bool>();
  }

  std::optional<std::string> text(const std::string& name) {
    const json* const value = take(name);
    if (!value) return std::nullopt;
    if (!value->is_string()) refuse(name, "a string", shown(*value));
    return value->get<std::string>();
  }

  /// Takes fields that change nothing here.
  void without_effect(std::initializer_list<const char*> names) {
    for (const char* const name : names) take(name);
  }

  /// Takes a field whose only supported value is the one that does nothing.
  void only(const std::string& name, const json& neutral) {
    const json* const value = take(name);
    if (value && *value != neutral)
      refuse(name, shown(neutral) + ", because other values are not supported", shown(*value), error_code::unsupported);
  }

  /// Throws `error` if a field was not taken.
  void end() const {
    for (const auto& [name, value] : object_.items())
      if (!taken_.contains(name) && !value.is_null())
        refuse(name, "no such field, because it is not supported", shown(value), error_code::unsupported);
  }

 private:
  std::string place(const std::string& name) const { return where_.empty() ? name : where_ + "." + name; }

  const json& object_;
  std::string where_;
  std::set<std::string> taken_{};
};

std::vector<std::string> read_stops(request_fields& from) {
  const json* const value = from.take("stop");
  if (!value) return {};
  const json all = value->is_array() ? *value : json::array({*value});
  std::vector<std::string> stops;
  for (const json& each : all) {
    if (!each.is_string() || each.get_ref<const std::string&>().empty() || all.size() > most_stops)
      from.refuse("stop", "a text or a list of at most " + std::to_string(most_stops) + " texts, none of them empty", shown(*value));
    stops.push_back(each);
  }
  return stops;
}

/// Reads "pruning": a bool, or an object that may have show_kept, continue and some of the flags of a policy.
void read_pruning(request_fields& from, completion_request& into) {
  const json* const value = from.take("pruning");
  if (!value) return;
  if (value->is_boolean()) {
    into.dense = !value->get<bool>();
    return;
  }
  request_fields parts(*value, "pruning");
  policy_spec spec;
  if (const auto preset = parts.text("policy")) spec.preset = *preset;
  spec.stages = parts.text("stages");
  spec.decode = parts.text("decode");
  spec.least_tokens = parts.number<std::size_t>("least_tokens", 0, std::size_t{1} << 30);
  into.show_kept = parts.flag("show_kept", false);
  into.continues = parts.flag("continue", false);
  parts.end();
  if (spec != policy_spec()) into.pruning = std::move(spec);
}

/// Joins the parts of a message's content. Only texts are supported.
json text_of_parts(const request_fields& from, const std::string& place, const json& parts) {
  std::string text;
  for (const json& part : parts) {
    const json type = part.is_object() ? part.value("type", json()) : json();
    if (type != "text")
      from.refuse(place, R"(parts of the type "text", because others are not supported)", shown(type), error_code::unsupported);
    if (!part.contains("text") || !part["text"].is_string()) from.refuse(place, "a part with a text", shown(part));
    text.append(text.empty() ? "" : "\n").append(part["text"].get_ref<const std::string&>());
  }
  return text;
}

/// Templates take the arguments of earlier calls as an object. The API has them as a text.
void parse_arguments(const request_fields& from, const std::string& place, json& message) {
  if (!message.contains("tool_calls") || message["tool_calls"].is_null()) return;
  const auto refuse = [&] { from.refuse(place + ".tool_calls", "calls as the API gave them", shown(message["tool_calls"])); };
  if (!message["tool_calls"].is_array()) refuse();
  for (json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) refuse();
    json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string() || !function.contains("arguments")) refuse();
    json& arguments = function["arguments"];
    if (arguments.is_string()) arguments = read_client_json(arguments.get<std::string>());
    if (!arguments.is_object()) refuse();
  }
}

std::string read_messages(request_fields& from) {
  const json* const value = from.take("messages");
  if (!value || !value->is_array() || value->empty()) from.refuse("messages", "a list of messages", value ? shown(*value) : "none");
  json all = *value;
  for (std::size_t i = 0; i < all.size(); ++i) {
    json& message = all[i];
    const std::string place = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) from.refuse(place, "an object", shown(message));
    if (!message.contains("role") || !message["role"].is_string())
      from.refuse(place + ".role", "a string", message.contains("role") ? shown(message["role"]) : "none");
    if (message.contains("content") && message["content"].is_array())
      message["content"] = text_of_parts(from, place + ".content", message["content"]);
    if (message.contains("content") && !message["content"].is_string() && !message["content"].is_null())
      from.refuse(place + ".content", "a string, a list of parts or null", shown(message["content"]));
    parse_arguments(from, place, message);
  }
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Reads the tools that an answer may call. With "tool_choice": "none" it may call none of them.
std::string read_tools(request_fields& from) {
  const json* const tools = from.take("tools");
  const json* const choice = from.take("tool_choice");
  if (choice && *choice != "auto" && *choice != "none")
    from.refuse("tool_choice", R"("auto" or "none", because a call cannot be forced)", shown(*choice), error_code::unsupported);
  if (!tools) return "";
  if (!tools->is_array()) from.refuse("tools", "a list of tools", shown(*tools));
  for (const json& tool : *tools) {
    const bool has_name = tool.is_object() && tool.value("type", json()) == "function" && tool.contains("function") &&
                          tool["function"].is_object() && tool["function"].value("name", json()).is_string();
    if (!has_name) from.refuse("tools", R"(tools of the type "function" with a name)", shown(tool));
  }
  return tools->empty() || (choice && *choice == "none") ? "" : tools->dump(-1, ' ', false, json::error_handler_t::replace);
}

void read_prompt(request_fields& from, completion_request& into) {
  const json* value = from.take("prompt");
  if (value && value->is_array() && value->size() == 1 && !value->front().is_number()) value = &value->front();
  if (value && value->is_string()) {
    into.prompt = value->get<std::string>();
    return;
  }
  constexpr const char* expected = "a text or a list of token ids, because several prompts in one request are not supported";
  if (!value || !value->is_array() || value->empty()) from.refuse("prompt", expected, value ? shown(*value) : "none");
  for (const json& id : *value) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<token_id>::max())
      from.refuse("prompt", expected, shown(id));
    into.ids.push_back(id.get<token_id>());
  }
}

void read_logprobs(request_fields& from, bool chat, completion_request& into) {
  if (chat) {
    const bool wanted = from.flag("logprobs", false);
    const auto top = from.number<std::size_t>("top_logprobs", 0, most_top_logprobs);
    if (top && !wanted) from.refuse("top_logprobs", R"("logprobs": true with it)", "none");
    if (wanted) into.top_logprobs = top.value_or(0);
  } else {
    into.top_logprobs = from.number<std::size_t>("logprobs", 0, most_top_logprobs);
  }
}

}  // namespace

completion_request read_completion_request(std::string_view body, bool chat) {
  const json parsed = read_client_json(body);
  request_fields all(parsed, "");
  completion_request request;
  request.model = all.text("model").value_or("");
  if (chat)
    request.messages = read_messages(all);
  else
    read_prompt(all, request);

  constexpr std::size_t no_bound = std::numeric_limits<std::size_t>::max();
  const auto older = all.number<std::size_t>("max_tokens", 1, no_bound);
  request.predict = chat ? all.number<std::size_t>("max_completion_tokens", 1, no_bound) : std::nullopt;
  if (!request.predict) request.predict = older;
  request.sampler.temperature = all.number<double>("temperature", 0, 2).value_or(request.sampler.temperature);
  request.sampler.top_p = all.number<double>("top_p", 0, 1).value_or(request.sampler.top_p);
  request.sampler.min_p = all.number<double>("min_p", 0, 1).value_or(request.sampler.min_p);
  request.sampler.top_k = all.number<std::size_t>("top_k", 0, no_bound).value_or(request.sampler.top_k);
  if (const json* const seed = all.take("seed")) {
    if (!seed->is_number_integer()) all.refuse("seed", "a whole number", shown(*seed));
    request.seed = seed->is_number_unsigned() ? seed->get<std::uint64_t>() : static_cast<std::uint64_t>(seed->get<std::int64_t>());
  }
  request.choices = all.number<std::size_t>("n", 1, most_choices).value_or(1);
  request.stops = read_stops(all);
  read_logprobs(all, chat, request);
  request.stream = all.flag("stream", false);
  if (const json* const options = all.take("stream_options")) {
    if (!request.stream) all.refuse("stream_options", R"("stream": true with it)", "none");
    request_fields of_stream(*options, "stream_options");
    request.stream_usage = of_stream.flag("include_usage", false);
    of_stream.end();
  }
  read_pruning(all, request);
  all.only("frequency_penalty", 0);
  all.only("presence_penalty", 0);
  all.only("logit_bias", json::object());
  if (chat) {
    all.only("response_format", {{"type", "text"}});
    request.tools = read_tools(all);
    all.only("modalities", {"text"});
    all.without_effect({"parallel_tool_calls"});
  } else {
    all.only("echo", false);
    all.only("best_of", 1);
    all.only("suffix", "");
  }
  all.without_effect({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
  all.end();
  return request;
}

tokenize_request read_tokenize_request(std::string_view body) {
  const json parsed = read_client_json(body);
  request_fields all(parsed, "");
  tokenize_request request;
  request.prompt = all.text("prompt");
  if (request.prompt && parsed.contains("messages")) all.refuse("messages", R"(only one of "prompt" and "messages")", "both");
  if (!request.prompt) {
    if (!parsed.contains("messages")) all.refuse("prompt", R"("prompt" or "messages")", "neither");
    request.messages = read_messages(all);
    request.tools = read_tools(all);
  }
  all.without_effect({"model"});
  all.end();
  return request;
}

}  // namespace program
}  // namespace lazyprune
