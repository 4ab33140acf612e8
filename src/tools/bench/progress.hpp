// The line on a terminal that says what is being measured now. Prints nothing anywhere else.
#pragma once

#include <string>

namespace lamppost::bench {

class Progress {
 public:
  enum class Output { kNone, kTerminal };

  explicit Progress(Output output) : output_(output) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// kTerminal if standard error is one.
  static Output detect();

  void show(const std::string& text);
  /// Takes the line away; before anything is printed.
  void clear();

 private:
  Output output_;
  bool shown_ = false;
};

}  // namespace lamppost::bench
