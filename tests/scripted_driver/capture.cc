// The scripted driver: stream captures and graphs. What was launched into a captured stream is replayed
// by cuGraphLaunch as one item.
#include "scripted_driver/state.hpp"

namespace lamppost::test::scripted {
namespace {

/// Ends the capture for all its streams; whether all that were drawn in have been waited for.
bool leave(const std::shared_ptr<Capture>& capture) {
  bool is_joined = true;
  for (auto& [stream, waited_for] : capture->to_join) {
    is_joined = is_joined && waited_for == stream->captured_work;
    stream->capture = nullptr;
  }
  capture->first->capture = nullptr;
  capture->first = nullptr;
  return is_joined;
}

}  // namespace
}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (!stream->host.begin_capture().ok()) return CUDA_ERROR_ILLEGAL_STATE;
    stream->captured_work = 0;
    stream->capture = std::make_shared<Capture>();
    *stream->capture = {new_handle(), stream.get(), mode, std::this_thread::get_id(), false, {}};
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto capture = stream->capture;
    if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->first != stream.get()) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        capture->thread != std::this_thread::get_id()) {
      capture->is_invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    auto captured = stream->host.end_capture();
    const bool is_joined = leave(capture);
    *graph = nullptr;
    if (capture->is_invalidated || !captured.ok()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!is_joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    const std::uint64_t number = new_handle();
    state().graphs[number] = {captured.take(), stream->context};
    *graph = as_handle<CUgraph>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, size_t* count) {
  return call("cuStreamGetCaptureInfo", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    if (graph != nullptr || dependencies != nullptr || edges != nullptr || count != nullptr) {
      return CUDA_ERROR_NOT_SUPPORTED;  // graphs have no nodes here
    }
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [number, other] : state().streams) {
      const bool is_its = other->context == stream->context && other->is_blocking;
      if (stream->is_legacy && is_its && other->capture != nullptr) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
    *status = stream->capture == nullptr           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (stream->capture != nullptr && id != nullptr) *id = stream->capture->id;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* handle, CUgraph graph, unsigned long long flags) {
  return call("cuGraphInstantiate", kNeedsInit | kNeedsContext | kUnsafeInCapture, [&] {
    const Lock lock(state().mutex);
    const auto found = state().graphs.find(number_of(graph));
    if (flags != 0 || found == state().graphs.end()) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t number = new_handle();
    state().graph_execs[number] = found->second;
    *handle = as_handle<CUgraphExec>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call("cuGraphLaunch", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto exec = state().graph_execs.find(number_of(handle));
    if (exec == state().graph_execs.end()) return CUDA_ERROR_INVALID_VALUE;
    const auto stream = find_stream(stream_handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != nullptr) {  // becomes part of that graph
      for (const auto& item : exec->second.launches->launches) {
        const CUresult captured = enqueue(*stream, item);
        if (captured != CUDA_SUCCESS) return captured;
      }
      return CUDA_SUCCESS;
    }
    const CUresult ordered = order_with_legacy(*stream);
    if (ordered == CUDA_SUCCESS) stream->host.launch_graph(exec->second.launches);
    return ordered;
  });
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  return call("cuGraphExecDestroy", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    const bool is_known = state().graph_execs.erase(number_of(handle)) == 1;
    return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  return call("cuGraphDestroy", kNeedsInit | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    const bool is_known = state().graphs.erase(number_of(handle)) == 1;
    return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
