// BootstrapWorld: runs one test body on every rank of a bootstrap, as threads or as processes, and
// keeps what each rank ended with. The body does not assert (a child's assertions would be lost):
// it returns a Status, and the test compares the reports.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace lamppost::test {

enum class BootstrapKind { kThreads, kSockets };
const char* kind_name(BootstrapKind kind);

/// What a rank ended with. Lies in memory that all processes share.
struct RankReport {
  std::atomic<bool> done{false};
  int code = -1;  // of the body's Status, or of joining; -1: none
  char text[640] = {};
  std::int64_t elapsed_ms = 0;  // of the last Rank::timed, or of joining if that failed
};

class BootstrapWorld;

/// A rank, as its body sees it.
class Rank {
 public:
  Rank(BootstrapWorld& world, Bootstrap& bootstrap) : world_(world), bootstrap_(bootstrap) {}

  Bootstrap& bootstrap() { return bootstrap_; }
  int rank() const { return bootstrap_.rank(); }
  int rank_count() const { return bootstrap_.rank_count(); }

  /// Gathers one number and checks all. `step` tells gathers apart.
  Status gather_numbers(std::uint64_t step, const char* phase = "numbers");
  /// Runs `call` and notes how long it took.
  Status timed(const std::function<Status()>& call);
  /// Ends this rank: SIGKILL for a process; for a thread, return the result and do no more.
  Status die();
  /// Until all other ranks have ended, or 30 s.
  void wait_for_others();

 private:
  BootstrapWorld& world_;
  Bootstrap& bootstrap_;
};

class BootstrapWorld {
 public:
  using Body = std::function<Status(Rank& rank)>;

  BootstrapWorld(BootstrapKind kind, int rank_count);
  ~BootstrapWorld();
  BootstrapWorld(const BootstrapWorld&) = delete;
  BootstrapWorld& operator=(const BootstrapWorld&) = delete;

  /// Timeout of joining and of each call; default 30 s.
  void set_timeout_ms(std::int64_t timeout_ms) { timeout_ms_ = timeout_ms; }
  /// Ranks that never make a bootstrap.
  void set_absent(std::set<int> ranks) { absent_ = std::move(ranks); }

  /// Runs `body` on all ranks and waits for them. Returns false if one had to be killed.
  bool run(const Body& body);

  int rank_count() const { return rank_count_; }
  const RankReport& report(int rank) const { return reports_[rank]; }
  /// "" if all ranks but `except` ended with `code` and the same text, which holds all of `words`,
  /// or else what is different.
  std::string check_all(lpResult_t code, const std::vector<std::string>& words,
                        const std::set<int>& except = {}) const;
  /// The longest elapsed_ms of all ranks but `except`.
  std::int64_t slowest_ms(const std::set<int>& except = {}) const;

 private:
  friend class Rank;
  using Maker = std::function<Result<std::unique_ptr<Bootstrap>>(int rank)>;

  void run_rank(int rank, const Maker& make, const Body& body);
  bool run_threads(const Body& body);
  bool run_processes(const Body& body);

  const BootstrapKind kind_;
  const int rank_count_;
  std::int64_t timeout_ms_ = 30'000;
  std::set<int> absent_;
  RankReport* reports_;
};

}  // namespace lamppost::test
