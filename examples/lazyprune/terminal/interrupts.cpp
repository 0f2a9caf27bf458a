// SPDX-License-Identifier: MIT
#include "terminal/interrupts.hpp"

#include <csignal>

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

extern "C" void note_interrupt(int signal) {
  noted = 1;
  std::signal(signal, end_without_remains);
}

}  // namespace

void remove_files_when_ended() {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    if (std::signal(signal, SIG_IGN) != SIG_IGN) std::signal(signal, end_without_remains);
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
