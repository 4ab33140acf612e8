// The World of ranks that are threads of one process.
#include <atomic>
#include <cstring>
#include <thread>

#include "tools/bench/world.hpp"

namespace lamppost::bench {
namespace {

/// What the threads share. The barrier yields for a while, so that ranks leave it close together,
/// and then sleeps, so that a rank which is still computing gets the core.
class Hub {
 public:
  explicit Hub(int rank_count) : rank_count_(rank_count), from_(rank_count, nullptr) {}

  void barrier() {
    const std::uint32_t round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == rank_count_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      round_.notify_all();
      return;
    }
    for (int i = 0; i < kYields; ++i) {
      if (round_.load(std::memory_order_acquire) != round) return;
      std::this_thread::yield();
    }
    round_.wait(round, std::memory_order_acquire);
  }

  void all_gather(int rank, const void* mine, void* all, std::size_t bytes) {
    from_[static_cast<std::size_t>(rank)] = mine;
    barrier();
    auto* to = static_cast<std::byte*>(all);
    for (const void* from : from_) {
      if (bytes != 0) std::memcpy(to, from, bytes);
      to += bytes;
    }
    barrier();  // nobody's `mine` is needed any more
  }

  int rank_count() const { return rank_count_; }

 private:
  static constexpr int kYields = 5000;

  const int rank_count_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
  std::vector<const void*> from_;
};

class ThreadWorld : public World {
 public:
  ThreadWorld(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int rank_count() const override { return hub_->rank_count(); }
  void barrier() override { hub_->barrier(); }
  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    hub_->all_gather(rank_, mine, all, bytes);
  }

 private:
  std::shared_ptr<Hub> hub_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<World>> make_thread_worlds(int rank_count) {
  const auto hub = std::make_shared<Hub>(rank_count);
  std::vector<std::unique_ptr<World>> worlds;
  for (int rank = 0; rank < rank_count; ++rank) {
    worlds.push_back(std::make_unique<ThreadWorld>(hub, rank));
  }
  return worlds;
}

}  // namespace lamppost::bench
