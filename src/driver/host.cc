#include "driver/host.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/handle_table.hpp"
#include "driver/memfd_mapping.hpp"

namespace lamppost {
namespace {

// The host "chip": small, so that every kernel is right for any grid and block.
constexpr std::uint32_t kMaxBlocks = 4;
constexpr std::uint32_t kMaxBlockThreads = 128;

HandleTable<HostStream>& streams() {
  static auto* table = new HandleTable<HostStream>();  // lives as long as the process
  return *table;
}

using SharedResult = Result<std::shared_ptr<SharedMapping>>;

SharedResult as_shared(Result<std::shared_ptr<MemfdMapping>> mapping) {
  if (!mapping.ok()) return mapping.status();
  return std::shared_ptr<SharedMapping>(mapping.take());
}

class HostDriver final : public Driver {
 public:
  HostDriver(const device::HostKernel* kernels, std::uint32_t kernel_count)
      : kernels_(kernels), kernel_count_(kernel_count) {}

  lpBackend_t backend() const override { return LP_BACKEND_HOST; }
  DeviceFacts device_facts() const override {
    return {"host CPU", {}, 0, kernels_[0].lanes, kMaxBlocks, kMaxBlockThreads, 1'000'000'000};
  }

  SharedResult allocate_shared(std::uint64_t bytes, const char* name) override {
    return as_shared(MemfdMapping::allocate(bytes, name));
  }
  Result<int> export_descriptor(SharedMapping& memory) override {
    const int fd = static_cast<MemfdMapping&>(memory).descriptor().get();
    if (fd < 0) return Status(LP_ERROR_INTERNAL, "the exporting descriptor is closed");
    return fd;
  }
  void close_export(SharedMapping& memory) override {
    static_cast<MemfdMapping&>(memory).descriptor().reset();
  }
  SharedResult import_descriptor(int descriptor, std::uint64_t bytes) override {
    return as_shared(MemfdMapping::import(descriptor, bytes));
  }
  Status reach(SharedMapping&) override { return {}; }
  SharedResult allocate_control_page(std::uint64_t bytes, const char* name) override {
    return as_shared(MemfdMapping::allocate(bytes, name));
  }

  Status fill_words(void* address, std::uint32_t word, std::uint64_t word_count) override {
    std::fill_n(static_cast<std::uint32_t*>(address), word_count, word);
    return {};
  }
  Status write(void* target, const void* source, std::uint64_t bytes) override {
    std::memcpy(target, source, bytes);
    return {};
  }
  /// Word by word: kernels may be storing there.
  Status read(void* target, const void* source, std::uint64_t bytes) override {
    const auto* words = static_cast<const std::uint32_t*>(source);
    for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
      const std::uint32_t word = __atomic_load_n(words + at / sizeof(word), __ATOMIC_ACQUIRE);
      std::memcpy(static_cast<std::byte*>(target) + at, &word,
                  std::min<std::uint64_t>(sizeof(word), bytes - at));
    }
    return {};
  }
  Status synchronize_device() override {
    return {};  // the bootstrap's next exchange orders plain stores
  }

  Result<bool> can_access(const void*) override { return true; }

  StreamHandle default_stream() const override { return 0; }
  Result<StreamHandle> create_stream() override {
    std::unique_ptr<HostStream> stream;
    try {
      stream = std::make_unique<HostStream>();
    } catch (const std::system_error& error) {  // std::thread's way to say so
      return Status(LP_ERROR_RESOURCE_LIMIT,
                    fmt::format("no thread for a host stream: {}", error.what()));
    }
    const StreamHandle handle = streams().add(stream.get());
    if (handle == 0) {
      return Status(LP_ERROR_RESOURCE_LIMIT, "too many host streams in this process");
    }
    stream.release();
    return handle;
  }
  Status destroy_stream(StreamHandle stream) override { return destroy_host_stream(stream); }
  Status synchronize_stream(StreamHandle stream) override {
    HostStream* found = find_host_stream(stream);
    if (found == nullptr) return not_a_host_stream(stream);
    found->synchronize();
    return {};
  }
  Result<StreamFacts> look_at(StreamHandle stream) override {
    HostStream* found = find_host_stream(stream);
    if (found == nullptr) return not_a_host_stream(stream);
    return StreamFacts{stream, found->capture_id()};  // handles are not used again
  }
  Status wait_for_word(StreamHandle stream, std::uint32_t* address, std::uint32_t value) override {
    HostStream* found = find_host_stream(stream);
    if (found == nullptr) return not_a_host_stream(stream);
    found->wait_for_word(address, value);
    return {};
  }
  // A capture is one stream's own.
  Status mark_capture(StreamHandle) override { return {}; }
  Status order_after_mark(StreamHandle) override { return {}; }
  Status launch(StreamHandle stream, const LaunchSpec& spec) override {
    HostStream* found = find_host_stream(stream);
    if (found == nullptr) return not_a_host_stream(stream);
    if (spec.cluster_blocks != 1) {
      return Status(LP_ERROR_NOT_SUPPORTED,
                    fmt::format("clusters of {} blocks on the host", spec.cluster_blocks));
    }
    if (spec.kernel >= kernel_count_ || spec.args_bytes > HostLaunchItem::kMostArgsBytes ||
        spec.args_bytes != kernels_[spec.kernel].args_bytes) {
      return Status(LP_ERROR_INTERNAL, fmt::format("kernel {} with {} bytes of arguments",
                                                   spec.kernel, spec.args_bytes));
    }
    HostLaunchItem item;
    item.kernel = &kernels_[spec.kernel];
    item.grid_blocks = spec.grid_blocks;
    item.block_threads = spec.block_threads;
    std::memcpy(item.args.data(), spec.args, spec.args_bytes);
    found->launch(item);
    return {};
  }

 private:
  const device::HostKernel* kernels_;
  std::uint32_t kernel_count_;
};

}  // namespace

HostStream* find_host_stream(StreamHandle stream) { return streams().find(stream); }

Status not_a_host_stream(StreamHandle stream) {
  return Status(
      LP_ERROR_INVALID_HANDLE,
      fmt::format("stream is {:#x}: not a live host stream (null, destroyed or foreign)", stream));
}

Status destroy_host_stream(StreamHandle stream) {
  std::unique_ptr<HostStream> owned(streams().remove(stream));
  return owned == nullptr ? not_a_host_stream(stream) : Status();
}

std::unique_ptr<Driver> make_host_driver(const device::HostKernel* kernels,
                                         std::uint32_t kernel_count) {
  return std::make_unique<HostDriver>(kernels, kernel_count);
}

}  // namespace lamppost
