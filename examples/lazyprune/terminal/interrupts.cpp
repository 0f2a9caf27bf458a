// SPDX-License-Identifier: MIT
#include "terminal/interrupts.hpp"

#include <csignal>

namespace lazyprune {
namespace program {
namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void note_interrupt(int signal) {
  noted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

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
