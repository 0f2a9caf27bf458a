// SPDX-License-Identifier: MIT
#include "terminal/interrupts.hpp"

#include <csignal>
#include <cstring>

#include <unistd.h>

#include <lazyprune/files/mapped_file.hpp>
#include <lazyprune/files/output_file.hpp>

namespace lazyprune {
namespace program {
namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void end_without_remains(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

extern "C" void end_at_mapped_file(int signal, siginfo_t* info, void*) {
  remove_unfinished_files();
  if (const char* const complaint = mapped_file_fault(info->si_addr)) {
    for (const char* const text : {"lazyprune: ", complaint, "\n"})
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
    ::_exit(3);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

extern "C" void note_interrupt(int signal) {
  noted = 1;
  std::signal(signal, end_without_remains);
}

}  // namespace

void remove_files_when_ended() {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    if (std::signal(signal, SIG_IGN) != SIG_IGN) std::signal(signal, end_without_remains);
  struct sigaction at_fault {};
  at_fault.sa_sigaction = end_at_mapped_file;
  at_fault.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &at_fault, nullptr);
}

void remove_files_when_interrupted() {
  if (std::signal(SIGINT, SIG_IGN) != SIG_IGN) std::signal(SIGINT, end_without_remains);
}

void catch_interrupts() {
  if (std::signal(SIGINT, SIG_IGN) != SIG_IGN) std::signal(SIGINT, note_interrupt);
}

bool interrupted() { return noted != 0; }

void forget_interrupt() {
  noted = 0;
  catch_interrupts();
}

}  // namespace program
}  // namespace lazyprune
