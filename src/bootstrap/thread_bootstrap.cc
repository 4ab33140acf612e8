#include "bootstrap/thread_bootstrap.hpp"

#include <fmt/core.h>

#include <utility>

namespace lamppost {

using boot::CallName;
using boot::Deadline;

ThreadGroup::ThreadGroup(int rank_count)
    : rank_count_(rank_count),
      joined_(static_cast<std::size_t>(rank_count)),
      left_(static_cast<std::size_t>(rank_count)) {
  for (auto& arrivals : rounds_) arrivals.resize(static_cast<std::size_t>(rank_count));
}

Status ThreadGroup::join(int rank) {
  std::lock_guard lock(mutex_);
  if (rank < 0 || rank >= rank_count_) {
    return Status(LP_ERROR_BOOTSTRAP,
                  fmt::format("bootstrap: rank {} of a group of {}", rank, rank_count_));
  }
  const auto index = static_cast<std::size_t>(rank);
  if (joined_[index]) {
    return Status(LP_ERROR_BOOTSTRAP, fmt::format("bootstrap: rank {} has joined before", rank));
  }
  joined_[index] = true;
  return {};
}

void ThreadGroup::leave(int rank) {
  std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(rank)] = true;
  changed_.notify_all();
}

Status ThreadGroup::all_gather(const CallName& call, const void* mine, void* all,
                               const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return failure_;
  Status arrived = arrive(call, mine);
  if (!arrived.ok()) return arrived;
  for (;;) {
    // Completion comes first: a rank that goes on and fails or leaves does not spoil this round.
    const std::vector<int> absent = missing(call.sequence);
    if (absent.empty()) {
      copy_out(call, all);
      return {};
    }
    if (!failure_.ok()) return failure_;
    for (int rank : absent) {
      if (left_[static_cast<std::size_t>(rank)]) {
        return fail(boot::peer_lost_error(call.phase, rank));
      }
    }
    if (deadline.passed()) {
      return fail(boot::timeout_error(call.phase, absent, deadline.timeout_ms()));
    }
    changed_.wait_until(lock, deadline.time());
  }
}

Status ThreadGroup::arrive(const CallName& call, const void* mine) {
  auto& arrivals = round(call.sequence);
  for (int rank = 0; rank < rank_count_; ++rank) {
    const Arrival& other = arrivals[static_cast<std::size_t>(rank)];
    if (other.sequence != call.sequence) continue;
    const CallName theirs{rank, other.sequence, other.payload.size(), other.phase};
    if (!call.same_call(theirs)) return fail(boot::different_calls_error(call, theirs));
    break;  // the ranks that came before agree with each other
  }
  Arrival& arrival = arrivals[static_cast<std::size_t>(call.rank)];
  arrival.sequence = call.sequence;
  arrival.phase = call.phase;
  const auto* bytes = static_cast<const std::byte*>(mine);
  arrival.payload.assign(bytes, bytes + call.bytes);
  if (missing(call.sequence).empty()) changed_.notify_all();
  return {};
}

std::vector<int> ThreadGroup::missing(std::uint64_t sequence) {
  std::vector<int> ranks;
  const auto& arrivals = round(sequence);
  for (int rank = 0; rank < rank_count_; ++rank) {
    if (arrivals[static_cast<std::size_t>(rank)].sequence != sequence) ranks.push_back(rank);
  }
  return ranks;
}

void ThreadGroup::copy_out(const CallName& call, void* all) {
  if (call.bytes == 0) return;
  auto* target = static_cast<std::byte*>(all);
  for (const Arrival& arrival : round(call.sequence)) {
    std::memcpy(target, arrival.payload.data(), call.bytes);
    target += call.bytes;
  }
}

Status ThreadGroup::fail(Status status) {
  failure_ = std::move(status);
  changed_.notify_all();
  return failure_;
}

class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank), joined_(group_->join(rank)) {}
  ~ThreadBootstrap() override {
    if (joined_.ok()) group_->leave(rank_);
  }

  int rank() const override { return rank_; }
  int rank_count() const override { return group_->rank_count(); }

  Status all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) override {
    if (!joined_.ok()) return joined_;
    return group_->all_gather({rank_, ++sequence_, bytes, phase}, mine, all,
                              Deadline::after_ms(timeout_ms()));
  }

 private:
  const std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  const Status joined_;
  std::uint64_t sequence_ = 0;
};

std::unique_ptr<Bootstrap> make_thread_bootstrap(std::shared_ptr<ThreadGroup> group, int rank) {
  return std::make_unique<ThreadBootstrap>(std::move(group), rank);
}

}  // namespace lamppost
