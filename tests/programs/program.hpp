// SPDX-License-Identifier: MIT
// Runs the built program as a user would, and returns its output.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <complaint.hpp>

/// A temporary folder for the files of one test. The destructor removes it.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lazyprune-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lines of the text, without their line breaks.
inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline void write_file(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

struct program_result {
  int code;  // exit code; 128 + the signal if a signal ended the program
  std::string out;
  std::string err;
};

/// Starts `lazyprune ARGUMENTS...`, or another program, with this text on stdin. `variables` are added to the environment, and
/// LAZYPRUNE_MODEL is removed from it.
class running_program {
 public:
  explicit running_program(std::vector<std::string> arguments, const std::string& input = {},
                           const std::vector<std::string>& variables = {}, const std::string& program = LAZYPRUNE_PROGRAM) {
    write_file(files_ / "in", input);
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv, environment;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
    for (char** variable = ::environ; *variable; ++variable)
      if (!std::string_view(*variable).starts_with("LAZYPRUNE_MODEL=")) environment.push_back(*variable);
    environment.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, (files_ / "in").c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (files_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (files_ / "err").c_str(), O_WRONLY | O_CREAT, 0600);
    const int problem = ::posix_spawn(&process_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (problem != 0) throw std::runtime_error("cannot start " + program);
  }

  running_program(const running_program&) = delete;
  running_program& operator=(const running_program&) = delete;
  /// Ends the program if nobody has waited for it.
  ~running_program() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    wait();
  }

  std::string out() const { return file_text(files_ / "out"); }
  std::string err() const { return file_text(files_ / "err"); }
  void send(int signal) const { ::kill(process_, signal); }
  /// Sends a signal with a value, which its handler gets.
  void send(int signal, int value) const { ::sigqueue(process_, signal, {.sival_int = value}); }

  /// True if the program has installed a handler for the signal.
  bool catches(int signal) const {
    const std::string status = file_text("/proc/" + std::to_string(process_) + "/status"), key = "SigCgt:\t";
    const std::size_t at = status.find(key);
    return at != status.npos && (std::stoull(status.substr(at + key.size(), 16), nullptr, 16) >> (signal - 1) & 1u) != 0;
  }

  /// The number of files and sockets that the program has open.
  std::size_t open_files() const {
    const std::filesystem::directory_iterator files("/proc/" + std::to_string(process_) + "/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  /// Returns when `done()` is true. Throws std::runtime_error with the program's stderr if the program ends before.
  template <class Done>
  void until(Done done) const {
    while (!done()) {
      if (has_ended() && !done()) throw std::runtime_error("the program has ended too early: " + err());
      ::usleep(500);
    }
  }

  /// Returns when the program has used this much more processor time, or has ended. Unlike a wait by the clock, this does not depend on how
  /// busy the machine is.
  void computes(double seconds) const {
    const long ticks = used_ticks() + static_cast<long>(seconds * static_cast<double>(::sysconf(_SC_CLK_TCK)));
    while (used_ticks() < ticks && !has_ended()) ::usleep(1000);
  }

  program_result wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out(), file_text(files_ / "err")};
  }

  /// True if the program has ended and nobody has waited for it.
  bool has_ended() const {
    std::string state;
    status() >> state;
    return state == "Z";
  }

 private:
  /// The fields of /proc/PID/stat after the program's name. The name may have spaces.
  std::istringstream status() const {
    const std::string all = file_text("/proc/" + std::to_string(process_) + "/stat");
    return std::istringstream(all.substr(all.rfind(')') + 1));
  }
  long used_ticks() const {
    std::istringstream fields = status();
    std::string other;
    for (int i = 0; i < 11; ++i) fields >> other;
    long user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }

  temporary_folder files_;
  pid_t process_ = 0;
};

inline program_result lazyprune_program(std::vector<std::string> arguments, const std::string& input = {},
                                        const std::vector<std::string>& variables = {}) {
  return running_program(std::move(arguments), input, variables).wait();
}

/// Returns the arguments of both lists.
inline std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// Runs a shell command in which $LAZYPRUNE is the program.
inline program_result shell(const std::string& command) {
  return running_program({"-c", command}, "", {"LAZYPRUNE=" LAZYPRUNE_PROGRAM}, "/bin/sh").wait();
}

using lazyprune_test::complaint_at;
using lazyprune_test::complaint_line;

/// Returns the program's error message without "lazyprune: ". If stderr is not one such line, or stdout is not empty, the message begins
/// with "not one complaint" and shows both.
inline complaint_line complaint(const program_result& result) {
  const std::string_view start = "lazyprune: ";
  const bool one_line = result.err.starts_with(start) && result.err.find('\n') == result.err.size() - 1;
  if (!result.out.empty() || !one_line)
    return {result.code, "not one complaint: stdout \"" + result.out + "\", stderr \"" + result.err + '"'};
  return {result.code, result.err.substr(start.size(), result.err.size() - start.size() - 1)};
}

/// Returns line number `line` of stderr, counted from 0, with the program's exit code.
inline complaint_line told(const program_result& result, std::size_t line) {
  const std::vector<std::string> lines = lines_of(result.err);
  return {result.code, line < lines.size() ? lines[line] : "no such line in \"" + result.err + '"'};
}

/// The model that comes with the project.
inline const std::string bundled_model = LAZYPRUNE_SOURCE_DIR "/examples/pocket/model";
/// The bundled model's calibration in the program's table.
inline const std::string bundled_calibration = LAZYPRUNE_SOURCE_DIR "/examples/lazyprune/models/known/pocket.json";

/// The bundled prompts of a task.
inline std::string prompts(const std::string& task) { return LAZYPRUNE_SOURCE_DIR "/examples/pocket/prompts/pocket_" + task + ".jsonl"; }
