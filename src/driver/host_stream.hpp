// HostStream: an ordered queue of kernel launches with one worker thread. HostGraph: launches recorded
// by a capture, replayed as one item. Any thread may enqueue; the worker alone runs.
#pragma once

#include <lamppost/status.hpp>

#include "fibers/scheduler.hpp"
#include "lamppost/device/host.hpp"

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace lamppost {

/// One kernel launch with its own copy of the arguments.
struct HostLaunchItem {
  static constexpr std::size_t kMostArgsBytes = 1024;

  const device::HostKernel* kernel;
  std::uint32_t grid_blocks;
  std::uint32_t block_threads;
  alignas(16) std::array<std::byte, kMostArgsBytes> args;
};

struct HostGraph {
  std::vector<HostLaunchItem> launches;
};

/// A moment on a stream: everything enqueued up to a ticket has run.
class HostProgress {
 public:
  void advance(std::uint64_t ticket);
  void wait(std::uint64_t ticket);
  bool wait_for(std::uint64_t ticket, std::int64_t timeout_ms);

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t done_ = 0;
};

class HostStream {
 public:
  HostStream();
  /// Blocks until all work has run.
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  void launch(const HostLaunchItem& item);
  void launch_graph(std::shared_ptr<const HostGraph> graph);
  /// Later work waits until `other` has run what is on it now.
  void wait_for_stream(HostStream& other);
  /// Later work waits until *word is `value` or later, by distance.
  void wait_for_word(const std::uint32_t* word, std::uint32_t value);

  void synchronize();
  bool drain(std::int64_t timeout_ms);

  Status begin_capture();
  Result<std::shared_ptr<HostGraph>> end_capture();
  bool is_capturing() const { return capture_id() != 0; }
  /// Of the capture that goes on, alone in the process; 0: none does.
  std::uint64_t capture_id() const;

 private:
  struct Item {
    std::optional<HostLaunchItem> launch;
    std::shared_ptr<const HostGraph> graph;
    std::shared_ptr<HostProgress> awaited;  // with the ticket below
    std::uint64_t awaited_ticket = 0;
    const std::uint32_t* word = nullptr;  // with the value below
    std::uint32_t word_value = 0;
    bool is_stop = false;
  };

  void enqueue(Item item);
  void work();
  void run(const HostLaunchItem& item);

  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Item> queue_;
  std::uint64_t issued_ = 0;
  std::shared_ptr<HostGraph> capture_;  // not null while capturing
  std::uint64_t capture_id_ = 0;
  std::shared_ptr<HostProgress> progress_ = std::make_shared<HostProgress>();
  fibers::FiberScheduler scheduler_;
  std::thread worker_;
};

}  // namespace lamppost
