// SPDX-License-Identifier: MIT
// Makes prompts out of a text. The answer to each prompt stands in the prompt, and the model must look it up. A calibration
// (head_calibration.hpp) finds the heads that attend to it. The text needs no labels, because the answers are made up or quoted here.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazyprune {
inline namespace v0 {

/// A prompt that was made out of a text.
struct look_up_prompt {
  std::string text;
  std::vector<std::string> answers;  // parts of the text: the values asked for, or the next words of the text; none if there is no
                                     // sentence to quote
  bool asks = false;                 // whether the prompt asks a question; otherwise it ends with the first words of one of its sentences
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

/// How many subjects a prompt has facts about, how many of them it asks for, and how many values each subject has.
struct fact_counts {
  std::size_t subjects, asked, values;
};
inline constexpr std::array<fact_counts, 8> counts_of_facts{
    {{1, 1, 1}, {1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {4, 1, 1}, {1, 1, 4}, {2, 1, 2}, {4, 3, 1}}};

/// A prompt begins with one of words_before. After the text it has one of words_after, with the question in the place of {q}.
inline constexpr std::array<std::string_view, 6> words_before{
    "",
    "",
    "Text:\n\n",
    "Read this text, and answer the question at its end.\n\n",
    "There are facts between the sentences of this text. Remember them. You will be asked for them later.\n\n",
    "Here is a document.\n\n"};
inline constexpr std::array<std::string_view, 6> words_after{"{q}",
                                                             "{q}",
                                                             "Question: {q}\nAnswer:",
                                                             "{q} Give a short answer.",
                                                             "That was the text. Now answer this: {q}",
                                                             "{q} Answer with words of the text, and with nothing else."};

class prompt_maker {
 public:
  explicit prompt_maker(std::uint64_t seed) : random_(seed) {}

  /// Inserts made-up facts between the sentences, and asks about some of them at the end. In a quarter of the prompts, a few sentences of
  /// the text repeat instead of the whole text.
  look_up_prompt with_question(const std::vector<std::string>& sentences) {
    const std::vector<std::string> words = words_of(sentences);
    std::vector<std::string> all = below(4) == 0 ? repeated(sentences) : sentences;
    const fact_counts counts = one_of(counts_of_facts);
    const fact_form& same = one_of(fact_forms);
    const bool of_one_form = below(2) == 0;
    std::vector<std::string> questions, values;  // of all subjects
    look_up_prompt made{{}, {}, true};
    std::string asked;
    for (std::size_t subject = 0; subject < counts.subjects; ++subject) {
      const fact_form& form = of_one_form ? same : one_of(fact_forms);
      const std::string word = one_of(words), name = capitalised(one_of(words));
      std::string question = filled(form.question, {{"{a}", word}, {"{n}", name}});
      if (std::ranges::find(questions, question) != questions.end()) continue;  // the fact of another subject would be an answer, too
      questions.push_back(std::move(question));
      for (std::size_t i = 0; i < counts.values; ++i) {
        values.push_back(new_value(words, all, values));
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(below(all.size() + 1)),
                   filled(form.fact, {{"{a}", word}, {"{n}", name}, {"{v}", values.back()}}));
        if (subject < counts.asked) made.answers.push_back(values.back());
      }
      if (subject < counts.asked) asked.append(subject == 0 ? "" : " ").append(questions.back());
    }
    if (counts.values > 1) asked += " Name all of them.";
    made.text = one_of(words_before);
    made.text += joined(all) + "\n\n" + filled(one_of(words_after), {{"{q}", asked}});
    return made;
  }

  /// The text, and the first words of one of its sentences once more. The answers are the next words of the text, in up to three parts.
  look_up_prompt with_quote(const std::vector<std::string>& sentences) {
    constexpr std::size_t quoted_words = 6, part_words = 8, most_parts = 3;
    const std::size_t begin = below(sentences.size());
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      const std::size_t first = (begin + i) % sentences.size();
      std::string_view rest = sentences[first];
      const std::string_view words = cut_words(rest, quoted_words);
      if (rest.empty()) continue;
      const std::string following = joined(std::span(sentences).subspan(first));
      rest = std::string_view(following).substr(words.size() + 1);
      look_up_prompt made{joined(sentences) + "\n\n" + std::string(words), {}, false};
      while (!rest.empty() && made.answers.size() < most_parts) {
        std::string part(cut_words(rest, part_words));
        if (made.text.find(part) != made.text.rfind(part)) break;  // the text's last words, such as "it.", may stand in many places
        made.answers.push_back(std::move(part));
      }
      return made;
    }
    return {joined(sentences) + "\n\n", {}, false};
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  template <class List>
  const typename List::value_type& one_of(const List& list) {
    return list[below(list.size())];
  }

  /// One to five sentences in a row, again and again, until the next one would make them longer than the text.
  std::vector<std::string> repeated(const std::vector<std::string>& sentences) {
    const std::size_t begin = below(sentences.size()), count = 1 + below(5), bytes = joined(sentences).size();
    std::vector<std::string> all;
    for (std::size_t i = 0, made = 0;; ++i) {
      const std::string& next = sentences[(begin + i % count) % sentences.size()];
      if (!all.empty() && made + next.size() > bytes) return all;
      all.push_back(next);
      made += next.size() + 1;
    }
  }

  /// Cuts `count` words off the beginning of the text, and the space after them. Returns these words, or all if there are not so many.
  static std::string_view cut_words(std::string_view& text, std::size_t count) {
    std::size_t end = 0;
    for (; count > 0 && end != std::string_view::npos; --count) end = text.find(' ', end + 1);
    const std::string_view words = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return words;
  }

  static std::string joined(std::span<const std::string> sentences) {
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

  static std::string capitalised(std::string word) {
    if (word[0] >= 'a') word[0] = static_cast<char>(word[0] - 'a' + 'A');
    return word;
  }

  /// `count` random digits of this base, at most 16.
  std::string digits(std::size_t count, std::size_t base) {
    std::string text;
    for (; count > 0; --count) text += "0123456789abcdef"[below(base)];
    return text;
  }

  /// Something to be looked up: short or long, of digits, letters or words.
  std::string value(const std::vector<std::string>& words) {
    constexpr std::array<std::string_view, 4> months{"March", "June", "October", "December"};
    switch (below(6)) {
      case 0:
        return digits(3 + below(2), 10);
      case 1:
        return digits(5 + below(4), 10);
      case 2: {  // groups of digits, as in serial numbers
        std::string text = digits(4 + below(5), 16);
        for (std::size_t more = below(5); more > 0; --more) text += "-" + digits(4 + below(5), 16);
        return text;
      }
      case 3:
      case 4: {
        const std::string& first = one_of(words);  // in a statement of its own, so that all compilers draw in the same order
        const char between = below(2) == 0 ? '-' : ' ';
        return first + between + one_of(words);
      }
      default: {
        std::string date = std::to_string(1 + below(28)) + " ";
        date += one_of(months);
        return date + " 1" + digits(3, 10);
      }
    }
  }

  /// A value that is in none of the sentences, and contains none of the other values: so each of them stands once in the prompt.
  std::string new_value(const std::vector<std::string>& words, const std::vector<std::string>& sentences,
                        const std::vector<std::string>& others) {
    for (;;) {
      std::string now = value(words);
      const bool in_text = std::ranges::any_of(sentences, [&](const std::string& s) { return s.find(now) != std::string::npos; });
      if (!in_text && std::ranges::none_of(others, [&](const std::string& o) { return now.find(o) != std::string::npos; })) return now;
    }
  }

  static std::string filled(std::string_view form, std::initializer_list<std::pair<std::string_view, std::string_view>> holes) {
    std::string text(form);
    for (const auto& [hole, words] : holes)
      for (std::size_t at; (at = text.find(hole)) != std::string::npos;) text.replace(at, hole.size(), words);
    return text;
  }

  std::mt19937_64 random_;
};

inline bool ends_sentence(char c) { return std::string_view(".?!").find(c) != std::string_view::npos; }

}  // namespace detail

/// Splits a text after each full stop, question mark or exclamation mark that a space follows. Line breaks count as spaces.
inline std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences;
  std::string now;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (space && (now.empty() || now.back() == ' ')) continue;
    if (space && detail::ends_sentence(now.back())) {
      sentences.push_back(std::move(now));
      now.clear();
    } else {
      now += space ? ' ' : c;
    }
  }
  if (now.ends_with(' ')) now.pop_back();
  if (!now.empty()) sentences.push_back(std::move(now));
  return sentences;
}

/// Returns the first byte of the sentence that has the byte `at`. A sentence begins where sentences_of begins one, and after a line break.
/// In a text without sentences, the result is at most 160 bytes before `at`.
inline std::size_t beginning_of_sentence(std::string_view text, std::size_t at) {
  const std::size_t earliest = at - std::min<std::size_t>(at, 160);
  const auto begins = [&](std::size_t i) {
    return text[i - 1] == '\n' || (i > 1 && text[i - 1] == ' ' && detail::ends_sentence(text[i - 2]));
  };
  while (at > earliest && !begins(at)) --at;
  return at;
}

/// Makes one prompt of each passage. Prompts with made-up facts and prompts with a quote alternate. The same passages and seed make the
/// same prompts.
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
