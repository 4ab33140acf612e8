// Driver: the run-time seam between Lamppost and a backend. Everything that differs between CUDA,
// HIP and the host at run time is a verb here; nothing above src/driver knows more.
//
// Thread safety: every verb, from any thread; verbs on one stream are serialised by the caller, as
// the C API demands. Verbs are local. "Blocks" is said where a verb may; the others return at once.
#pragma once

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
};

/// What a device is and how large a launch may be on it.
struct DeviceFacts {
  std::string name;
  std::uint32_t lanes;       // threads of a warp
  std::uint32_t max_blocks;  // that one communicator may have resident
  std::uint32_t max_block_threads;
  std::uint64_t ticks_per_second;  // of device ticks
};

/// Shared memory: a mapping of it, and (the owner's) the descriptor that exports it. Unmapped when
/// the last holder in this process lets go; the memory itself lives until no process maps it.
class SharedMapping {
 public:
  virtual ~SharedMapping() = default;
  std::byte* address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }

 protected:
  std::byte* address_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// A driver's stream or event; 0 is the driver's null stream (none on the host).
using StreamHandle = std::uintptr_t;

enum class CaptureState { kNone, kActive };

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

  // Streams.
  virtual Result<StreamHandle> create_stream() = 0;
  /// Blocks until the stream is empty.
  virtual Status destroy_stream(StreamHandle stream) = 0;
  /// Blocks until all enqueued work has run.
  virtual Status synchronize_stream(StreamHandle stream) = 0;
  /// Blocks at most `timeout_ms`; false: work is still running. A stream that is gone is drained.
  virtual Result<bool> drain_stream(StreamHandle stream, std::int64_t timeout_ms) = 0;
  virtual Result<CaptureState> capture_state(StreamHandle stream) = 0;
  /// Later work on `later` runs after everything that is on `earlier` now.
  virtual Status order_after(StreamHandle later, StreamHandle earlier) = 0;
  virtual Status launch(StreamHandle stream, const LaunchSpec& spec) = 0;
};

}  // namespace lamppost
