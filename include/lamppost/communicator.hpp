// C++ owners over the C ABI: Communicator (one rank), Stream and Graph (host backend). Header-only
// and over the same runtime: every method is one lp... call on the handle inside, so both APIs may
// be mixed freely, and a program that uses this header links nothing but liblamppost.
//
// What holds for all three classes
// - Move-only. An object that was moved from, or destroyed early, holds no handle: it may be
//   assigned, destroyed and asked for handle(); any other method returns LP_ERROR_INVALID_HANDLE.
// - Nothing throws (but std::bad_alloc). A Status has the library's code and its sentence.
// - Thread safety is that of the handle: calls on one object are serialised by the caller, from any
//   thread; async_error(), health() and set_timeout_ms() may be called from any thread meanwhile.
// - "collective", "local", "enqueues" and "blocks" mean what lamppost.h says they mean.
#pragma once

#include <lamppost/lamppost.h>
#include <lamppost/status.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lamppost {

namespace detail {

/// `result` of a C call that this thread has just made, with the sentence that goes with it.
inline Status to_status(lpResult_t result) {
  if (result == LP_SUCCESS) return Status();
  return Status(result, lpGetLastError(nullptr));
}

struct DestroyComm {
  void operator()(lpComm_t comm) const { static_cast<void>(lpCommDestroy(comm)); }
};
struct DestroyStream {
  void operator()(lpStream_t stream) const { static_cast<void>(lpStreamDestroy(stream)); }
};
struct DestroyGraph {
  void operator()(lpGraph_t graph) const { static_cast<void>(lpGraphDestroy(graph)); }
};

}  // namespace detail

/// The health as a paragraph for people (what lpHealthToString writes). Local.
inline std::string to_string(const lpHealth& health) {
  std::string text(lpHealthToString(&health, nullptr, 0), '\0');
  lpHealthToString(&health, text.data(), text.size());
  text.resize(std::char_traits<char>::length(text.c_str()));
  return text;
}

class Communicator;
class Stream;

/// Captured calls of the host backend, to be enqueued any number of times. Made by
/// Stream::end_capture. Must not be destroyed while a stream still has it in its queue, nor be
/// launched after one of its communicators was destroyed.
class Graph {
 public:
  Graph() = default;
  /// Takes ownership of `graph`.
  explicit Graph(lpGraph_t graph) : handle_(graph) {}

  /// Enqueues all calls of the graph on `stream`, in order. Collective as its calls are: every rank
  /// launches its own graph. Failures of the calls show in Communicator::async_error().
  Status launch(const Stream& stream) const;

  /// Null if there is none. Stays owned by this object.
  lpGraph_t handle() const { return handle_.get(); }

 private:
  std::unique_ptr<lpGraph, detail::DestroyGraph> handle_;
};

/// An ordered queue of the host backend with a thread of its own. May outlive its communicator.
/// The destructor blocks until all enqueued work has run (bounded, as the enqueued calls are).
class Stream {
 public:
  Stream() = default;
  /// Takes ownership of `stream`.
  explicit Stream(lpStream_t stream) : handle_(stream) {}

  /// Local. Errors: LP_ERROR_NOT_SUPPORTED on a GPU communicator (use the vendor's streams),
  /// LP_ERROR_RESOURCE_LIMIT, LP_ERROR_OUT_OF_MEMORY.
  static Result<Stream> create(const Communicator& communicator);

  /// Blocks until all that was enqueued has run. The result is about the stream: ok even if a
  /// collective failed, so ask Communicator::async_error() too. Refused in capture.
  Status synchronize() { return detail::to_status(lpStreamSynchronize(handle())); }

  /// From here to end_capture(), calls enqueued on this stream are recorded, not run. Local.
  Status begin_capture() { return detail::to_status(lpStreamBeginCapture(handle())); }
  /// Ends the capture. Errors: LP_ERROR_INVALID_USAGE without a capture, and what broke it.
  Result<Graph> end_capture() {
    lpGraph_t graph = nullptr;
    const lpResult_t result = lpStreamEndCapture(handle(), &graph);
    if (result != LP_SUCCESS) return detail::to_status(result);
    return Graph(graph);
  }

  /// Null if there is none. Stays owned by this object; pass it as `stream` of a collective.
  lpStream_t handle() const { return handle_.get(); }

 private:
  std::unique_ptr<lpStream, detail::DestroyStream> handle_;
};

/// One rank of one communicator. The destructor is local and bounded: see destroy().
class Communicator {
 public:
  /// Holds no handle.
  Communicator() = default;

  /// Makes `rank_count` ranks in this process; element r is rank r. Blocks, at most
  /// config->setup_timeout_ms a step. config: null means all defaults; rank r gets device r.
  /// Errors: as lpCommInitAll.
  static Result<std::vector<Communicator>> create_all(int rank_count,
                                                      const lpConfig* config = nullptr) {
    std::vector<lpComm_t> handles(static_cast<std::size_t>(std::max(rank_count, 1)));
    const lpResult_t result = lpCommInitAll(handles.data(), rank_count, nullptr, config);
    if (result != LP_SUCCESS) return detail::to_status(result);
    std::vector<Communicator> communicators;
    communicators.reserve(handles.size());
    Status failed;
    for (const lpComm_t handle : handles) {
      Result<Communicator> communicator = adopt(handle);
      if (communicator.ok()) {
        communicators.push_back(communicator.take());
      } else {
        failed = communicator.status();
        static_cast<void>(lpCommDestroy(handle));
      }
    }
    if (!failed.ok()) return failed;
    return communicators;
  }

  /// Takes ownership of `comm` (from lpCommInitMPI, say). Local. Errors: LP_ERROR_INVALID_HANDLE;
  /// `comm` is then still the caller's.
  static Result<Communicator> adopt(lpComm_t comm) {
    Communicator communicator;
    lpResult_t result = lpCommUserRank(comm, &communicator.rank_);
    if (result == LP_SUCCESS) result = lpCommCount(comm, &communicator.rank_count_);
    if (result != LP_SUCCESS) return detail::to_status(result);
    communicator.handle_.reset(comm);
    return communicator;
  }

  /// This rank's number, and the number of ranks; -1 and 0 if default-constructed. Local.
  int rank() const { return rank_; }
  int rank_count() const { return rank_count_; }
  /// Never LP_BACKEND_AUTO. Local.
  Result<lpBackend_t> backend() const {
    lpBackend_t backend = LP_BACKEND_AUTO;
    const lpResult_t result = lpCommGetBackend(handle(), &backend);
    if (result != LP_SUCCESS) return detail::to_status(result);
    return backend;
  }

  /// out[i] = sum over all ranks of in[i]. Collective (count, type, order of calls); returns after
  /// enqueueing on `stream`; may be captured.
  /// in, out: `count` elements of device memory (host backend: any memory), element-aligned; may be
  /// equal, must not overlap otherwise; may be null if count is 0. They must live until the stream
  /// has passed this call.
  /// stream: the vendor's stream on GPUs (null: its default stream); on the host backend
  /// Stream::handle(), null: the communicator's own stream.
  /// Errors: as lpAllReduce; a sticky error is returned by every later call.
  Status all_reduce(const void* in, void* out, std::size_t count, lpDataType_t type,
                    void* stream = nullptr) {
    return detail::to_status(lpAllReduce(in, out, count, type, LP_SUM, handle(), stream));
  }

  /// All-reduce + residual add + RMSNorm in one kernel; lpAllReduceRMSNormArgs in lamppost.h has
  /// the arithmetic, the error bound and the aliasing table. Collective; returns after enqueueing on
  /// `stream`; may be captured. args: start from LP_ALL_REDUCE_RMS_NORM_INITIALIZER; it is read
  /// before the call returns. stream and errors: as all_reduce.
  Status all_reduce_rms_norm(const lpAllReduceRMSNormArgs& args, void* stream = nullptr) {
    return detail::to_status(lpAllReduceRMSNorm(&args, handle(), stream));
  }

  /// The sticky error: ok while no call has failed. Its sentence is the health paragraph, which
  /// names the rank that was waited for. Local, never blocks, no device synchronisation.
  Status async_error() const {
    lpResult_t error = LP_SUCCESS;
    const lpResult_t result = lpCommGetAsyncError(handle(), &error);
    if (result != LP_SUCCESS) return detail::to_status(result);
    if (error == LP_SUCCESS) return Status();
    const Result<lpHealth> record = health();
    return Status(error, record.ok() ? to_string(record.value()) : lpGetErrorString(error));
  }

  /// What this rank is doing, and the record of its first failure. Local, never blocks.
  Result<lpHealth> health() const {
    lpHealth health{};
    health.size = sizeof(health);
    health.magic = LP_HEALTH_MAGIC;
    health.version = LP_HEALTH_VERSION;
    const lpResult_t result = lpCommGetHealth(handle(), &health);
    if (result != LP_SUCCESS) return detail::to_status(result);
    return health;
  }

  /// Sets the time that a call may wait for a peer, for calls in flight too. 0: waits never expire
  /// by themselves. Local: ranks may differ. Errors: LP_ERROR_INVALID_ARGUMENT (negative).
  Status set_timeout_ms(std::int64_t timeout_ms) {
    return detail::to_status(lpCommSetTimeout(handle(), timeout_ms));
  }

  /// Blocks until the communicator's own stream (host) or default stream (GPUs) has run all that was
  /// enqueued. Ok even if a collective failed: ask async_error() too. Refused in capture.
  Status synchronize() { return detail::to_status(lpCommSynchronize(handle())); }

  /// What the destructor does, with its result. Local, bounded; no other rank need call it. Without
  /// a handle: ok. Errors: LP_ERROR_NOT_CAPTURABLE in a capture (nothing was destroyed).
  Status destroy() {
    const lpResult_t result = lpCommDestroy(handle());
    if (result != LP_ERROR_NOT_CAPTURABLE) static_cast<void>(handle_.release());
    return detail::to_status(result);
  }

  /// Null if there is none. Stays owned by this object: do not lpCommDestroy it.
  lpComm_t handle() const { return handle_.get(); }

 private:
  std::unique_ptr<lpComm, detail::DestroyComm> handle_;
  int rank_ = -1;
  int rank_count_ = 0;
};

inline Result<Stream> Stream::create(const Communicator& communicator) {
  lpStream_t stream = nullptr;
  const lpResult_t result = lpStreamCreate(communicator.handle(), &stream);
  if (result != LP_SUCCESS) return detail::to_status(result);
  return Stream(stream);
}

inline Status Graph::launch(const Stream& stream) const {
  return detail::to_status(lpGraphLaunch(handle(), stream.handle()));
}

}  // namespace lamppost
