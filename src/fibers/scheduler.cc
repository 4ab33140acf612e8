// Compiled without sanitizers (see sanitizers.hpp); holds all state that fibers of one OS thread
// share, so that TSan sees only the kernels' own accesses.
#include "fibers/scheduler.hpp"

#include "fibers/context.hpp"
#include "fibers/sanitizers.hpp"
#include "fibers/store_buffer.hpp"
#include "lamppost/device/host.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace lamppost::fibers {
namespace {

using device::HostKernel;
using device::HostLaunch;
using device::HostThread;

#if defined(LAMPPOST_TSAN) || defined(LAMPPOST_ASAN)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif
constexpr std::uint64_t kStackCanary = 0x5afe57ac5afe57acull;
constexpr std::uint32_t kQuietRounds = 4;       // rounds of failed polls before the core is yielded
constexpr std::uint32_t kSleepAfterRounds = 8192;  // ... and before the thread sleeps

std::atomic<std::uint64_t> g_seed{0};

[[noreturn]] void stop(const char* symbol, const HostThread& thread, const char* what) {
  std::fprintf(stderr, "lamppost: host target: kernel %s, block %u, thread %u: %s\n", symbol,
               thread.block_rank, thread.thread_rank, what);
  std::abort();
}

struct Warp {
  std::uint64_t values[2][64];
  std::uint32_t turn = 0;
  std::uint32_t arrived = 0;      // at the lane exchange
  std::uint32_t elsewhere = 0;    // at the block barrier, or done
};

struct Block {
  std::uint32_t arrived = 0;
  std::uint32_t turn = 0;  // of the barrier; `any` of the other one is still being read
  bool any[2] = {false, false};
  std::uint32_t done = 0;
};

struct Fiber {
  HostThread thread;  // first: HostThread& is how a kernel names its fiber
  Context context;
  std::byte* stack = nullptr;
  void* tsan_fiber = nullptr;
  void* asan_stack = nullptr;
};

/// A run of stacks from one mapping.
struct StackChunk {
  void* address;
  std::size_t bytes;
};

class RunQueue {
 public:
  void reset(std::size_t capacity) {
    ring_.resize(capacity);
    head_ = count_ = 0;
  }
  bool is_empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  void push(Fiber* fiber) {
    ring_[(head_ + count_) % ring_.size()] = fiber;
    ++count_;
  }
  Fiber* pop() {
    Fiber* fiber = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --count_;
    return fiber;
  }
  void bring_to_front(std::size_t i) {
    std::swap(ring_[head_], ring_[(head_ + i) % ring_.size()]);
  }

 private:
  std::vector<Fiber*> ring_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
};

}  // namespace
}  // namespace lamppost::fibers

namespace lamppost::device {

using fibers::Block;
using fibers::Fiber;
using fibers::Warp;

/// The launch that an OS thread is running, and its fibers.
class HostLaunch {
 public:
  ~HostLaunch();

  void run(const HostKernel& kernel, std::uint32_t grid_blocks, std::uint32_t block_threads,
           const void* args, std::uint64_t seed);

  void block_sync(Fiber& self);
  bool block_any(Fiber& self, bool flag);
  void pause(Fiber& self);
  void preempt(Fiber& self);
  const std::uint64_t* exchange(Fiber& self, std::uint64_t value);
  std::uint64_t random();
  fibers::StoreBuffer& stores() { return stores_; }

  [[noreturn]] static void fiber_main();

 private:
  void reserve(std::size_t fiber_count);
  void start_fibers();
  /// The calling fiber stops; another runs. It must be in the queue or at a meeting point.
  void switch_from(Fiber& self);
  Fiber* next();
  void finish(Fiber& self);
  void idle();
  Warp& warp_of(const Fiber& fiber) {
    return warps_[(fiber.thread.block_rank * block_threads_ + fiber.thread.thread_rank) / lanes_];
  }
  void wake(std::uint32_t first, std::uint32_t count, const Fiber& but);
  [[noreturn]] void stop(const Fiber& fiber, const char* what) {
    fibers::stop(kernel_->symbol, fiber.thread, what);
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<fibers::StackChunk> chunks_;
  std::vector<Block> blocks_;
  std::vector<Warp> warps_;
  std::vector<Pack> shared_;
  fibers::RunQueue queue_;
  fibers::StoreBuffer stores_;

  const HostKernel* kernel_ = nullptr;
  const void* args_ = nullptr;
  std::uint32_t grid_blocks_ = 0;
  std::uint32_t block_threads_ = 0;
  std::uint32_t lanes_ = 32;
  std::uint32_t done_ = 0;
  std::uint32_t idle_polls_ = 0;
  std::uint32_t idle_rounds_ = 0;
  std::uint64_t random_state_ = 1;
  bool is_shuffled_ = false;

  fibers::Context main_context_;
  void* main_tsan_fiber_ = nullptr;
  void* main_asan_stack_ = nullptr;
  const void* main_stack_ = nullptr;
  std::size_t main_stack_bytes_ = 0;
};

namespace {

/// The fiber that this OS thread runs now: how a new fiber learns who it is.
thread_local Fiber* t_current = nullptr;

Fiber& fiber_of(HostThread& thread) { return *reinterpret_cast<Fiber*>(&thread); }

}  // namespace

HostLaunch::~HostLaunch() {
  for (const auto& fiber : fibers_) fibers::tsan_destroy_fiber(fiber->tsan_fiber);
  for (const auto& chunk : chunks_) munmap(chunk.address, chunk.bytes);
}

void HostLaunch::reserve(std::size_t fiber_count) {
  if (fibers_.size() >= fiber_count) return;
  const std::size_t more = fiber_count - fibers_.size();
  const std::size_t bytes = more * fibers::kStackBytes;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "lamppost: host target: no memory for %zu fiber stacks\n", more);
    std::abort();
  }
  chunks_.push_back({memory, bytes});
  for (std::size_t i = 0; i < more; ++i) {
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = static_cast<std::byte*>(memory) + i * fibers::kStackBytes;
    fiber->tsan_fiber = fibers::tsan_create_fiber();
    fibers_.push_back(std::move(fiber));
  }
}

void HostLaunch::start_fibers() {
  const std::uint32_t count = grid_blocks_ * block_threads_;
  static std::atomic<std::uint32_t> launches{0};  // of all streams: they are one device
  const std::uint32_t launch_number = launches.fetch_add(1, std::memory_order_relaxed);
  const std::size_t packs = (kernel_->shared_bytes + sizeof(Pack) - 1) / sizeof(Pack);
  reserve(count);
  blocks_.assign(grid_blocks_, Block{});
  warps_.assign(count / lanes_, Warp{});
  shared_.resize(grid_blocks_ * packs);
  queue_.reset(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Fiber& fiber = *fibers_[i];
    const std::uint32_t block = i / block_threads_;
    const std::uint32_t rank = i % block_threads_;
    fiber.thread = {rank,
                    block,
                    block_threads_,
                    grid_blocks_,
                    rank % lanes_,
                    launch_number,
                    reinterpret_cast<std::byte*>(shared_.data() + block * packs),
                    this};
    fiber.asan_stack = nullptr;
    std::memcpy(fiber.stack, &fibers::kStackCanary, sizeof(fibers::kStackCanary));
    fibers::make_context<&HostLaunch::fiber_main>(fiber.context, fiber.stack, fibers::kStackBytes);
    queue_.push(&fiber);
  }
}

void HostLaunch::run(const HostKernel& kernel, std::uint32_t grid_blocks,
                     std::uint32_t block_threads, const void* args, std::uint64_t seed) {
  kernel_ = &kernel;
  args_ = args;
  grid_blocks_ = grid_blocks;
  block_threads_ = block_threads;
  lanes_ = kernel.lanes;
  done_ = idle_polls_ = idle_rounds_ = 0;
  is_shuffled_ = fibers::g_seed.load(std::memory_order_relaxed) != 0;
  random_state_ = seed | 1;
  if (kernel.before_launch != nullptr) kernel.before_launch(*this, args);
  start_fibers();
  main_tsan_fiber_ = fibers::tsan_current_fiber();
  fibers::tsan_release(this);
  Fiber* first = next();
  t_current = first;
  fibers::tsan_switch(first->tsan_fiber);
  fibers::asan_before_switch(&main_asan_stack_, first->stack, fibers::kStackBytes);
  fibers::switch_context(main_context_, first->context);
  fibers::asan_after_switch(main_asan_stack_, nullptr, nullptr);
  fibers::tsan_acquire(&done_);
  stores_.drain(nullptr, 0);
}

void HostLaunch::fiber_main() {
  Fiber& self = *t_current;
  HostLaunch& launch = *self.thread.launch;
  const void* from = nullptr;
  std::size_t from_bytes = 0;
  fibers::asan_after_switch(nullptr, &from, &from_bytes);
  if (launch.main_stack_ == nullptr) {
    // The launch's first fiber was entered from the OS thread's own stack.
    launch.main_stack_ = from;
    launch.main_stack_bytes_ = from_bytes;
  }
  fibers::tsan_acquire(&launch);
  launch.kernel_->run(self.thread, launch.args_);
  fibers::tsan_release(&launch.done_);
  launch.finish(self);
  std::abort();  // a finished fiber is never switched to
}

void HostLaunch::finish(Fiber& self) {
  std::uint64_t canary;
  std::memcpy(&canary, self.stack, sizeof(canary));
  if (canary != fibers::kStackCanary) stop(self, "the stack has overflowed");
  Block& block = blocks_[self.thread.block_rank];
  Warp& warp = warp_of(self);
  ++block.done;
  ++warp.elsewhere;
  if (block.arrived > 0) stop(self, "left the kernel while others wait at block_sync()");
  if (warp.arrived > 0) stop(self, "left the kernel while other lanes wait at a lane operation");
  idle_rounds_ = 0;
  if (++done_ == grid_blocks_ * block_threads_) {
    fibers::tsan_switch(main_tsan_fiber_);
    fibers::asan_before_switch(nullptr, main_stack_, main_stack_bytes_);
    fibers::switch_context(self.context, main_context_);
  }
  Fiber* to = next();
  if (to == nullptr) stop(self, "the last runnable thread; all others wait at meeting points");
  t_current = to;
  fibers::tsan_switch(to->tsan_fiber);
  fibers::asan_before_switch(nullptr, to->stack, fibers::kStackBytes);
  fibers::switch_context(self.context, to->context);
}

Fiber* HostLaunch::next() {
  if (queue_.is_empty()) return nullptr;
  if (is_shuffled_) queue_.bring_to_front(random() % queue_.size());
  return queue_.pop();
}

void HostLaunch::switch_from(Fiber& self) {
  Fiber* to = next();
  if (to == nullptr) stop(self, "every thread waits at a meeting point that cannot complete");
  if (to == &self) return;
  t_current = to;
  fibers::tsan_switch(to->tsan_fiber);
  fibers::asan_before_switch(&self.asan_stack, to->stack, fibers::kStackBytes);
  fibers::switch_context(self.context, to->context);
  fibers::asan_after_switch(self.asan_stack, nullptr, nullptr);
}

void HostLaunch::wake(std::uint32_t first, std::uint32_t count, const Fiber& but) {
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (fibers_[i].get() != &but) queue_.push(fibers_[i].get());
  }
}

void HostLaunch::block_sync(Fiber& self) {
  Block& block = blocks_[self.thread.block_rank];
  Warp& warp = warp_of(self);
  if (warp.arrived > 0) stop(self, "at block_sync() while other lanes wait at a lane operation");
  if (block.done > 0) stop(self, "at block_sync() after another thread has left the kernel");
  fibers::tsan_release(&block);
  ++warp.elsewhere;
  if (++block.arrived < block_threads_) {
    switch_from(self);
  } else {
    const std::uint32_t first = self.thread.block_rank * block_threads_;
    block.arrived = 0;
    block.turn ^= 1u;
    block.any[block.turn] = false;
    for (std::uint32_t w = 0; w < block_threads_ / lanes_; ++w) {
      warps_[first / lanes_ + w].elsewhere = 0;
    }
    idle_rounds_ = 0;
    wake(first, block_threads_, self);
  }
  fibers::tsan_acquire(&block);
}

bool HostLaunch::block_any(Fiber& self, bool flag) {
  Block& block = blocks_[self.thread.block_rank];
  const std::uint32_t turn = block.turn;
  if (flag) block.any[turn] = true;
  block_sync(self);
  return block.any[turn];
}

const std::uint64_t* HostLaunch::exchange(Fiber& self, std::uint64_t value) {
  Warp& warp = warp_of(self);
  if (warp.elsewhere > 0) stop(self, "at a lane operation that another lane of the warp missed");
  std::uint64_t* values = warp.values[warp.turn];
  values[self.thread.lane_rank] = value;
  fibers::tsan_release(&warp);
  if (++warp.arrived < lanes_) {
    switch_from(self);
  } else {
    warp.arrived = 0;
    warp.turn ^= 1u;
    const std::uint32_t thread = self.thread.thread_rank - self.thread.lane_rank;
    wake(self.thread.block_rank * block_threads_ + thread, lanes_, self);
  }
  fibers::tsan_acquire(&warp);
  return values;
}

void HostLaunch::preempt(Fiber& self) {
  queue_.push(&self);
  switch_from(self);
}

void HostLaunch::pause(Fiber& self) {
  if (++idle_polls_ > queue_.size()) {
    idle_polls_ = 0;
    idle();
  }
  preempt(self);
}

void HostLaunch::idle() {
  ++idle_rounds_;
  if (idle_rounds_ < fibers::kQuietRounds) return;
  if (idle_rounds_ < fibers::kSleepAfterRounds) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::uint64_t HostLaunch::random() {
  // xorshift64*; Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016.
  random_state_ ^= random_state_ >> 12;
  random_state_ ^= random_state_ << 25;
  random_state_ ^= random_state_ >> 27;
  return random_state_ * 0x2545f4914f6cdd1dull;
}

void host_block_sync(HostThread& thread) { thread.launch->block_sync(fiber_of(thread)); }
bool host_block_any(HostThread& thread, bool flag) {
  return thread.launch->block_any(fiber_of(thread), flag);
}
void host_pause(HostThread& thread) { thread.launch->pause(fiber_of(thread)); }
void host_preempt(HostThread& thread) { thread.launch->preempt(fiber_of(thread)); }
const std::uint64_t* host_lane_exchange(HostThread& thread, std::uint64_t value) {
  return thread.launch->exchange(fiber_of(thread), value);
}
std::uint64_t host_random(HostThread& thread) { return thread.launch->random(); }

void host_delay_launch(HostLaunch& launch, std::uint32_t most_us) {
  const std::uint64_t random = launch.random();
  // Mostly none, so that the late rank changes; sometimes all of it.
  if (most_us == 0 || random % 4 != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds((random >> 8) % most_us));
}

void host_buffer_store(HostThread& thread, void* address, std::uint64_t value,
                       std::uint32_t bytes) {
  fibers::StoreBuffer& stores = thread.launch->stores();
  if (stores.is_full()) stores.drain_one(thread.launch->random());
  stores.hold(address, value, bytes);
}
void host_drain_stores(HostThread& thread, const void* address, std::uint32_t bytes) {
  thread.launch->stores().drain(address, bytes);
}
void host_drain_one_store(HostThread& thread) {
  thread.launch->stores().drain_one(thread.launch->random());
}

}  // namespace lamppost::device

namespace lamppost::fibers {

struct FiberScheduler::State {
  device::HostLaunch launch;
  std::uint64_t stream_id = 0;
  std::uint64_t launch_count = 0;
};

void set_host_seed(std::uint64_t seed) { g_seed.store(seed, std::memory_order_relaxed); }

FiberScheduler::FiberScheduler(std::uint64_t stream_id) : state_(std::make_unique<State>()) {
  state_->stream_id = stream_id;
}
FiberScheduler::~FiberScheduler() = default;

void FiberScheduler::run(const device::HostKernel& kernel, std::uint32_t grid_blocks,
                         std::uint32_t block_threads, const void* args) {
  std::uint64_t seed = g_seed.load(std::memory_order_relaxed);
  if (seed == 0) {
    seed = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  seed = (seed + state_->stream_id * 0x9e3779b97f4a7c15ull + ++state_->launch_count) *
         0xbf58476d1ce4e5b9ull;
  state_->launch.run(kernel, grid_blocks, block_threads, args, seed);
}

}  // namespace lamppost::fibers
