// SPDX-License-Identifier: MIT
// Makes prompts out of a text, whose answers a model must look up in the prompt. A calibration (head_calibration.hpp) watches which heads
// look them up. The prompts need no labels: only the text and the forms below.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// A prompt that was made out of a text.
struct look_up_prompt {
  std::string text;
  std::string answer;  // a part of the text: the value asked for, or the next words of the sentence; empty if there is no sentence to quote
  bool asks = false;   // whether the prompt ends with a question; otherwise it ends with the first words of an earlier sentence
};

namespace detail {

/// A made-up fact, and a question about it. {a} stands for a word, {n} for a name and {v} for the value that is asked for.
struct fact_form {
  std::string_view fact, question;
};
inline constexpr std::array<fact_form, 12> fact_forms{{
    {"The code of the {a} is {v}.", "What is the code of the {a}?"},
    {"{n} left the {a} in room {v}.", "In which room did {n} leave the {a}?"},
    {"Please note that the password for {a} has been changed to {v}.", "What is the password for {a} now?"},
    {"The telephone number of {n} is {v}.", "Which telephone number does {n} have?"},
    {"In the register, {n} is entered under {v}.", "Under what is {n} entered in the register?"},
    {"The {a} was sold for {v} pounds.", "For how many pounds was the {a} sold?"},
    {"Whoever asks for the {a} should say {v}.", "What should one say to get the {a}?"},
    {"The favourite word of {n} is {v}.", "What is the favourite word of {n}?"},
    {"Order {v} belongs to the {a}.", "Which order belongs to the {a}?"},
    {"The {a} bears the mark {v}.", "Which mark does the {a} bear?"},
    {"According to the list, the value of {a} equals {v}.", "What does the value of {a} equal?"},
    {"The name of the {a} in the story of {n} is {v}.", "What is the name of the {a} in the story of {n}?"},
}};

class prompt_maker {
 public:
  explicit prompt_maker(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  /// The text with some facts between its sentences, and a question about one of them.
  look_up_prompt with_question(const std::vector<std::string>& sentences) {
    constexpr std::array<std::size_t, 5> counts{1, 1, 2, 4, 4};
    const std::vector<std::string> words = words_of(sentences);
    std::vector<std::string> all = sentences;
    const fact_form& same = fact_forms[below(fact_forms.size())];
    const bool of_one_form = below(2) == 0;
    std::string answer, question;
    for (std::size_t left = counts[below(counts.size())]; left > 0; --left) {
      const fact_form& form = of_one_form ? same : fact_forms[below(fact_forms.size())];
      std::string name = words[below(words.size())];
      if (name[0] >= 'a') name[0] = static_cast<char>(name[0] - 'a' + 'A');
      answer = value(words);
      while (std::ranges::any_of(all, [&](const std::string& s) { return s.find(answer) != std::string::npos; })) answer = value(words);
      const std::array<std::pair<std::string_view, std::string>, 3> holes{
          {{"{a}", words[below(words.size())]}, {"{n}", name}, {"{v}", answer}}};
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(below(all.size() + 1)), filled(form.fact, holes));
      question = filled(form.question, holes);
    }
    return {joined(all) + "\n\n" + question, answer, true};
  }

  /// The text, and the first words of one of its sentences once more.
  look_up_prompt with_quote(const std::vector<std::string>& sentences) {
    constexpr std::size_t quoted = 6, wanted = 8;  // words
    const std::size_t begin = below(sentences.size());
    std::string words, rest;
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      const std::string& one = sentences[(begin + i) % sentences.size()];
      std::size_t end = 0, count = 0;
      for (; count < quoted && end != std::string::npos; ++count) end = one.find(' ', end + 1);
      if (end == std::string::npos) continue;
      words = one.substr(0, end);
      std::size_t last = end;
      for (count = 0; count < wanted && last != std::string::npos; ++count) last = one.find(' ', last + 1);
      rest = one.substr(end + 1, last == std::string::npos ? last : last - end - 1);
      break;
    }
    return {joined(sentences) + "\n\n" + words, rest, false};
  }

 private:
  static std::string joined(const std::vector<std::string>& sentences) {
    std::string all;
    for (const std::string& s : sentences) all.append(all.empty() ? "" : " ").append(s);
    return all;
  }

  /// Words of at least five ASCII letters. If there are none, "thing" is the only word.
  static std::vector<std::string> words_of(const std::vector<std::string>& sentences) {
    std::vector<std::string> words;
    const auto keep = [&](std::string& word) {
      if (word.size() >= 5) words.push_back(word);
      word.clear();
    };
    for (const std::string& one : sentences) {
      std::string word;
      for (const char c : one)
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          word += c;
        else
          keep(word);
      keep(word);
    }
    if (words.empty()) words.emplace_back("thing");
    return words;
  }

  std::string value(const std::vector<std::string>& words) {
    constexpr std::string_view digits = "0123456789abcdef";
    const auto some = [&](std::size_t count, std::size_t base) {
      std::string text;
      for (; count > 0; --count) text += digits[below(base)];
      return text;
    };
    switch (below(5)) {
      case 0:
        return some(5 + below(3), 10);
      case 1:
        return some(8, 16) + "-" + some(4, 16);
      case 2:
        return words[below(words.size())] + "-" + words[below(words.size())];
      case 3:
        return some(3, 10);
      default:
        return words[below(words.size())] + " " + words[below(words.size())];
    }
  }

  template <class Holes>
  static std::string filled(std::string_view form, const Holes& holes) {
    std::string text(form);
    for (const auto& [hole, words] : holes)
      for (std::size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, hole.size(), words);
    return text;
  }

  std::mt19937_64 random_;
};

}  // namespace detail

/// Splits a text after each full stop, question mark or exclamation mark that a space follows. Line breaks count as spaces.
inline std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences;
  std::string now;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (space && (now.empty() || now.back() == ' ')) continue;
    if (space && std::string_view(".?!").find(now.back()) != std::string_view::npos) {
      sentences.push_back(std::move(now));
      now.clear();
    } else {
      now += space ? ' ' : c;
    }
  }
  if (!now.empty()) sentences.push_back(std::move(now));
  return sentences;
}

/// Makes a prompt of each passage, in turn with a question about a made-up fact and with a quote. Equal seeds make equal prompts.
inline std::vector<look_up_prompt> look_up_prompts(const std::vector<std::string>& passages, std::uint64_t seed = 1) {
  detail::prompt_maker maker(seed);
  std::vector<look_up_prompt> prompts;
  for (const std::string& passage : passages) {
    const std::vector<std::string> sentences = sentences_of(passage);
    if (!sentences.empty()) prompts.push_back(prompts.size() % 2 == 0 ? maker.with_question(sentences) : maker.with_quote(sentences));
  }
  return prompts;
}

}  // namespace v0
}  // namespace lazyprune
