// Workbench: what a program that uses Lamppost brings along itself, for lamppost-bench and the tests:
// memory of the backend, streams and graphs. The library does not use it.
//
// Thread safety: calls on one object from one thread at a time. "Blocks" is said where a call may.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lamppost {

class Workbench {
 public:
  virtual ~Workbench() = default;

  /// At least `bytes` bytes, aligned to 256; not filled. bytes may be 0.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  // These three block until they are done; they are not ordered with any stream.
  virtual Status copy_in(void* memory, const void* from, std::size_t bytes) = 0;
  virtual Status copy_out(void* to, const void* memory, std::size_t bytes) = 0;
  virtual Status fill_bytes(void* memory, int value, std::size_t bytes) = 0;

  /// A stream as collectives take it.
  virtual Result<void*> create_stream() = 0;
  /// Blocks until the stream is empty.
  virtual void destroy_stream(void* stream) = 0;
  /// Blocks until all that was enqueued has run.
  virtual Status synchronize(void* stream) = 0;

  virtual Status begin_capture(void* stream) = 0;
  /// A graph that is ready to be launched.
  virtual Result<void*> end_capture(void* stream) = 0;
  virtual Status launch_graph(void* graph, void* stream) = 0;
  /// The graph must not be running.
  virtual void destroy_graph(void* graph) = 0;

  /// Size of the device's last-level cache; 0: not known.
  virtual std::size_t cache_bytes() const = 0;
};

/// On the backend of `comm`, which must outlive it; on GPUs on device `device`. Errors: NOT_SUPPORTED
/// in a build without that backend, DRIVER.
Result<std::unique_ptr<Workbench>> make_workbench(lpComm_t comm, int device);

/// On CUDA device `device`. Its streams do not wait for the null stream. Not in a build without CUDA.
Result<std::unique_ptr<Workbench>> make_cuda_workbench(int device);

}  // namespace lamppost
