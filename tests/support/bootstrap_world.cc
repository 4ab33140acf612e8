#include "support/bootstrap_world.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "bootstrap/frame.hpp"
#include "bootstrap/socket_bootstrap.hpp"
#include "bootstrap/thread_bootstrap.hpp"
#include "support/fork_launcher.hpp"

namespace lamppost::test {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ms_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

std::uint64_t number_of(int rank, std::uint64_t step) {
  return step * 1000 + static_cast<std::uint64_t>(rank);
}

}  // namespace

const char* kind_name(BootstrapKind kind) {
  return kind == BootstrapKind::kThreads ? "Threads" : "Sockets";
}

Status Rank::gather_numbers(std::uint64_t step, const char* phase) {
  std::vector<std::uint64_t> all;
  Status status = all_gather_value(bootstrap_, number_of(rank(), step), all, phase);
  if (!status.ok()) return status;
  for (int r = 0; r < rank_count(); ++r) {
    const std::uint64_t got = all[static_cast<std::size_t>(r)];
    if (got == number_of(r, step)) continue;
    return Status(LP_ERROR_INTERNAL,
                  fmt::format("step {}: rank {} has {} of rank {}", step, rank(), got, r));
  }
  return {};
}

Status Rank::timed(const std::function<Status()>& call) {
  const auto start = Clock::now();
  Status status = call();
  world_.reports_[rank()].elapsed_ms = ms_since(start);
  return status;
}

Status Rank::die() {
  if (world_.kind_ == BootstrapKind::kSockets) {
    world_.reports_[rank()].done = true;
    ::kill(::getpid(), SIGKILL);
  }
  return {};
}

void Rank::wait_for_others() {
  const auto start = Clock::now();
  for (int r = 0; r < rank_count(); ++r) {
    while (r != rank() && !world_.reports_[r].done && ms_since(start) < 30'000) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

BootstrapWorld::BootstrapWorld(BootstrapKind kind, int rank_count)
    : kind_(kind), rank_count_(rank_count) {
  const std::size_t bytes = sizeof(RankReport) * static_cast<std::size_t>(rank_count);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  reports_ = static_cast<RankReport*>(memory);
  for (int rank = 0; rank < rank_count; ++rank) new (&reports_[rank]) RankReport;
}

BootstrapWorld::~BootstrapWorld() {
  ::munmap(reports_, sizeof(RankReport) * static_cast<std::size_t>(rank_count_));
}

bool BootstrapWorld::run(const Body& body) {
  return kind_ == BootstrapKind::kThreads ? run_threads(body) : run_processes(body);
}

void BootstrapWorld::run_rank(int rank, const Maker& make, const Body& body) {
  RankReport& report = reports_[rank];
  if (!absent_.contains(rank)) {
    const auto start = Clock::now();
    auto made = make(rank);
    Status status = made.status();
    if (made.ok()) {
      made.value()->set_timeout_ms(timeout_ms_);
      Rank self(*this, *made.value());
      status = body(self);
    } else {
      report.elapsed_ms = ms_since(start);
    }
    report.code = status.code();
    boot::copy_text(report.text, status.message());
  }
  report.done = true;
}

bool BootstrapWorld::run_threads(const Body& body) {
  const auto group = std::make_shared<ThreadGroup>(rank_count_);
  const Maker make = [&](int rank) -> Result<std::unique_ptr<Bootstrap>> {
    return make_thread_bootstrap(group, rank);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < rank_count_; ++rank) {
    threads.emplace_back([&, rank] { run_rank(rank, make, body); });
  }
  for (auto& thread : threads) thread.join();
  return true;
}

bool BootstrapWorld::run_processes(const Body& body) {
  const std::string address = unique_socket_address();
  const Maker make = [&](int rank) {
    return make_socket_bootstrap({address, rank, rank_count_, /*secret=*/0x5ec7e7, timeout_ms_});
  };
  const auto exits = run_ranks(rank_count_, [&](int rank) {
    run_rank(rank, make, body);
    return 0;
  });
  return std::none_of(exits.begin(), exits.end(), [](const RankExit& e) { return e.timed_out; });
}

std::string BootstrapWorld::check_all(lpResult_t code, const std::vector<std::string>& words,
                                      const std::set<int>& except) const {
  const char* expected = nullptr;
  for (int rank = 0; rank < rank_count_; ++rank) {
    if (except.contains(rank)) continue;
    const std::string text = reports_[rank].text;
    if (reports_[rank].code != code) {
      return fmt::format("rank {}: code {}, not {}: {}", rank, reports_[rank].code, int(code),
                         text);
    }
    for (const std::string& word : words) {
      if (text.find(word) != std::string::npos) continue;
      return fmt::format("rank {}: no '{}' in: {}", rank, word, text);
    }
    if (expected != nullptr && text != expected) {
      return fmt::format("rank {} says '{}', others say '{}'", rank, text, expected);
    }
    expected = reports_[rank].text;
  }
  return {};
}

std::int64_t BootstrapWorld::slowest_ms(const std::set<int>& except) const {
  std::int64_t slowest = 0;
  for (int rank = 0; rank < rank_count_; ++rank) {
    if (!except.contains(rank)) slowest = std::max(slowest, reports_[rank].elapsed_ms);
  }
  return slowest;
}

}  // namespace lamppost::test
