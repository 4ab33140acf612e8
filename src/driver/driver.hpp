// Driver: the run-time seam between Lamppost and a backend. Everything that differs between CUDA,
// HIP and the host at run time is a verb here; nothing above src/driver knows more.
//
// Thread safety: every verb, from any thread; verbs on one stream are serialised by the caller, as
// the C API demands. Verbs are local. "Blocks" is said where a verb may; the others return at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <lamppost/status.hpp>
#include <memory>
#include <string>

namespace lamppost {

/// LaunchSpec: the third of the four structs of a call's path. `args` is copied by launch().
struct LaunchSpec {
  std::uint32_t kernel;  // KernelId: position in kernels.def
  std::uint32_t grid_blocks;
  std::uint32_t block_threads;
  const void* args;
  std::uint32_t args_bytes;
  std::uint32_t cluster_blocks = 1;  // blocks that run on one cluster of processors; divides the grid
  /// May start before the stream's earlier kernel ends. Ignored where the kernel's image does not
  /// wait for that itself.
  bool early_launch = false;
};

/// The identity of a device, the same in every process: never its ordinal. All zero on the host,
/// where every rank has a device of its own.
using DeviceUuid = std::array<std::uint8_t, 16>;
/// "GPU-0123...", as the vendors' tools print it.
std::string to_string(const DeviceUuid& uuid);

/// What a device is and how large a launch may be on it.
struct DeviceFacts {
  std::string name;
  DeviceUuid uuid;
  std::uint32_t chip;            // compute capability * 10 (90: sm_90); 0 on the host
  std::uint32_t lanes;           // threads of a warp
  std::uint32_t resident_blocks; // of any kernel's largest block, on an otherwise idle device
  std::uint32_t max_block_threads;  // of any kernel; some take fewer (KernelInfo::most_threads)
  std::uint64_t ticks_per_second;  // of device ticks
  /// Hardware queues that this process's streams share on the device: kernels in one queue may wait for
  /// each other. 0: no such thing.
  std::uint32_t stream_queues = 0;
};

/// Shared memory: a mapping of it, and (the owner's) the descriptor that exports it. Unmapped when
/// the last holder in this process lets go; the memory itself lives until no process maps it.
class SharedMapping {
 public:
  virtual ~SharedMapping() = default;
  /// Where kernels reach it; on GPUs the host cannot read there, but for a control page.
  std::byte* address() const { return address_; }
  /// A control page as kernels address it.
  std::byte* device_address() const { return device_address_ != nullptr ? device_address_ : address_; }
  std::uint64_t bytes() const { return bytes_; }

 protected:
  std::byte* address_ = nullptr;
  std::byte* device_address_ = nullptr;  // null: the same
  std::uint64_t bytes_ = 0;
};

/// A driver's stream; 0: none.
using StreamHandle = std::uintptr_t;

/// What a call must know of its stream.
struct StreamFacts {
  std::uint64_t id;       // of this stream alone: in the life of the process, or within its capture
  std::uint64_t capture;  // of this capture alone; 0: the stream is not being captured
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual lpBackend_t backend() const = 0;
  virtual DeviceFacts device_facts() const = 0;

  // Memory that peers can map.
  virtual Result<std::shared_ptr<SharedMapping>> allocate_shared(std::uint64_t bytes,
                                                                 const char* name) = 0;
  /// A descriptor for memory that this process allocated; borrowed, valid while the mapping lives
  /// or until close_export().
  virtual Result<int> export_descriptor(SharedMapping& memory) = 0;
  /// Closes the exporting descriptor: nobody can import any more. Peers' mappings stay.
  virtual void close_export(SharedMapping& memory) = 0;
  /// Maps a peer's memory. The descriptor stays the caller's.
  virtual Result<std::shared_ptr<SharedMapping>> import_descriptor(int descriptor,
                                                                   std::uint64_t bytes) = 0;
  /// Makes memory that another rank of this process allocated reachable by this rank's device.
  virtual Status reach(SharedMapping& memory) = 0;
  /// Host memory that kernels and other processes can reach (the control page). Its descriptor
  /// stays open: that is how other processes find it (/proc/PID/fd).
  virtual Result<std::shared_ptr<SharedMapping>> allocate_control_page(std::uint64_t bytes,
                                                                       const char* name) = 0;

  // Blocking access to device memory, outside any stream; used when nothing runs.
  virtual Status fill_words(void* address, std::uint32_t word, std::uint64_t word_count) = 0;
  virtual Status write(void* target, const void* source, std::uint64_t bytes) = 0;
  virtual Status read(void* target, const void* source, std::uint64_t bytes) = 0;
  /// Blocks until fills and writes are visible to every peer.
  virtual Status synchronize_device() = 0;

  /// Whether kernels of this device can access the memory at `address`. Cheap on an address that was
  /// asked for before; may be asked while a stream is captured.
  virtual Result<bool> can_access(const void* address) = 0;

  // Streams.
  /// What a user's null stream means: the vendor's default stream; 0 where there is none (host).
  virtual StreamHandle default_stream() const = 0;
  virtual Result<StreamHandle> create_stream() = 0;
  /// Blocks until the stream is empty.
  virtual Status destroy_stream(StreamHandle stream) = 0;
  /// Blocks until all enqueued work has run.
  virtual Status synchronize_stream(StreamHandle stream) = 0;
  virtual Result<StreamFacts> look_at(StreamHandle stream) = 0;
  /// Later work on `stream` runs once the word at `address`, in shared memory, is `value` or later (by
  /// distance). The stream that stores it is not touched: its owner may have destroyed it.
  virtual Status wait_for_word(StreamHandle stream, std::uint32_t* address,
                               std::uint32_t value) = 0;
  // Within one capture that spans several streams: remembers where `stream` is, and orders a stream's
  // later work after that.
  virtual Status mark_capture(StreamHandle stream) = 0;
  virtual Status order_after_mark(StreamHandle stream) = 0;
  virtual Status launch(StreamHandle stream, const LaunchSpec& spec) = 0;
};

}  // namespace lamppost
