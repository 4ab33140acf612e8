#include "tools/bench/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace lamppost::bench {

Progress::Output Progress::detect() {
  return isatty(STDERR_FILENO) != 0 ? Output::kTerminal : Output::kNone;
}

void Progress::show(const std::string& text) {
  if (output_ == Output::kNone) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace lamppost::bench
