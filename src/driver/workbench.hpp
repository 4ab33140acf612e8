// Workbench: what a program that uses Lamppost brings along itself, for lamppost-bench and the
// tests: memory of the backend, streams and graphs. The library does not use it.
//
// Thread safety: calls on one object from one thread at a time. "Blocks" is said where a call may.
#pragma once

#include <lamppost/lamppost.h>

#include <cstddef>
#include <cstdint>
#include <lamppost/status.hpp>
#include <memory>

namespace lamppost {

class Workbench {
 public:
  virtual ~Workbench() = default;

  virtual lpBackend_t backend() const = 0;

  /// At least `bytes` bytes, aligned to 256; not filled. bytes may be 0.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  // These three block until they are done; they are not ordered with any stream. bytes may be 0.
  virtual Status copy_in(void* memory, const void* from, std::size_t bytes) = 0;
  virtual Status copy_out(void* to, const void* memory, std::size_t bytes) = 0;
  virtual Status fill_bytes(void* memory, int value, std::size_t bytes) = 0;

  /// A stream as collectives take it. Destroy it after the communicators that were called on it,
  /// and before the workbench.
  virtual Result<void*> create_stream() = 0;
  /// Blocks until the stream is empty.
  virtual void destroy_stream(void* stream) = 0;
  /// Blocks until all that was enqueued has run. Ok even if a collective failed.
  virtual Status synchronize(void* stream) = 0;

  virtual Status begin_capture(void* stream) = 0;
  /// A graph that is ready to be launched. Ends the capture also when it fails.
  virtual Result<void*> end_capture(void* stream) = 0;
  virtual Status launch_graph(void* graph, void* stream) = 0;
  /// The graph must not be running.
  virtual void destroy_graph(void* graph) = 0;

  /// Makes the device the calling thread's current one, for other libraries that go by it.
  virtual Status bind_thread() = 0;

  /// Size of the device's last-level cache; 0: not known.
  virtual std::size_t cache_bytes() const = 0;
};

/// On the backend of `comm`, which must live as long as streams are created; on GPUs on device `device`.
/// Errors: NOT_SUPPORTED in a build without that backend, DRIVER.
Result<std::unique_ptr<Workbench>> make_workbench(lpComm_t comm, int device);

/// Devices of a GPU backend that this process sees; 0 for the host, in a build without that backend,
/// and where its driver does not start (creating a communicator tells why). May start the driver.
int device_count(lpBackend_t backend);

// Not in a build without CUDA.
/// On CUDA device `device`. Its streams do not wait for the null stream.
Result<std::unique_ptr<Workbench>> make_cuda_workbench(int device);
int cuda_device_count();

}  // namespace lamppost
