#include "driver/host_stream.hpp"

#include <atomic>
#include <chrono>

namespace lamppost {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> id{0};
  return ++id;
}

void poll_word(const std::uint32_t* word, std::uint32_t value) {
  constexpr auto kPause = std::chrono::microseconds(20);
  while (static_cast<std::int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0) {
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

void HostProgress::advance(std::uint64_t ticket) {
  {
    std::lock_guard lock(mutex_);
    done_ = ticket;
  }
  moved_.notify_all();
}

void HostProgress::wait(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return done_ >= ticket; });
}

bool HostProgress::wait_for(std::uint64_t ticket, std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return moved_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                         [&] { return done_ >= ticket; });
}

HostStream::HostStream() : scheduler_(next_id()), worker_([this] { work(); }) {}

HostStream::~HostStream() {
  Item stop;
  stop.is_stop = true;
  enqueue(std::move(stop));
  worker_.join();
}

void HostStream::enqueue(Item item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
    ++issued_;
  }
  has_work_.notify_one();
}

void HostStream::launch(const HostLaunchItem& item) {
  {
    std::lock_guard lock(mutex_);
    if (capture_ != nullptr) {
      capture_->launches.push_back(item);
      return;
    }
  }
  Item work;
  work.launch = item;
  enqueue(std::move(work));
}

void HostStream::launch_graph(std::shared_ptr<const HostGraph> graph) {
  Item work;
  work.graph = std::move(graph);
  enqueue(std::move(work));
}

void HostStream::wait_for_stream(HostStream& other) {
  Item work;
  work.awaited = other.progress_;
  {
    std::lock_guard lock(other.mutex_);
    work.awaited_ticket = other.issued_;
  }
  enqueue(std::move(work));
}

void HostStream::wait_for_word(const std::uint32_t* word, std::uint32_t value) {
  Item work;
  work.word = word;
  work.word_value = value;
  enqueue(std::move(work));
}

void HostStream::synchronize() {
  std::uint64_t ticket;
  {
    std::lock_guard lock(mutex_);
    ticket = issued_;
  }
  progress_->wait(ticket);
}

bool HostStream::drain(std::int64_t timeout_ms) {
  std::uint64_t ticket;
  {
    std::lock_guard lock(mutex_);
    ticket = issued_;
  }
  return progress_->wait_for(ticket, timeout_ms);
}

Status HostStream::begin_capture() {
  std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    return Status(LP_ERROR_INVALID_USAGE, "the stream is being captured already");
  }
  capture_ = std::make_shared<HostGraph>();
  capture_id_ = next_id();
  return {};
}

Result<std::shared_ptr<HostGraph>> HostStream::end_capture() {
  std::lock_guard lock(mutex_);
  if (capture_ == nullptr) {
    return Status(LP_ERROR_INVALID_USAGE, "the stream is not being captured");
  }
  return std::exchange(capture_, nullptr);
}

std::uint64_t HostStream::capture_id() const {
  std::lock_guard lock(mutex_);
  return capture_ != nullptr ? capture_id_ : 0;
}

void HostStream::run(const HostLaunchItem& item) {
  scheduler_.run(*item.kernel, item.grid_blocks, item.block_threads, item.args.data());
}

void HostStream::work() {
  std::uint64_t ticket = 0;
  while (true) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      has_work_.wait(lock, [&] { return !queue_.empty(); });
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    if (item.is_stop) return;
    if (item.launch) run(*item.launch);
    if (item.graph != nullptr) {
      for (const HostLaunchItem& launch : item.graph->launches) run(launch);
    }
    if (item.awaited != nullptr) item.awaited->wait(item.awaited_ticket);
    if (item.word != nullptr) poll_word(item.word, item.word_value);
    progress_->advance(++ticket);
  }
}

}  // namespace lamppost
