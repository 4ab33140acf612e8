// The scripted driver: stream captures and graphs. What was launched into a captured stream is replayed
// by cuGraphLaunch as one item.
#include "scripted_driver/state.hpp"

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->is_capturing) return CUDA_ERROR_ILLEGAL_STATE;
    if (!stream->host.begin_capture().ok()) return CUDA_ERROR_ILLEGAL_STATE;
    stream->is_capturing = true;
    stream->mode = mode;
    stream->capturing_thread = std::this_thread::get_id();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call("cuStreamEndCapture", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->is_capturing) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        stream->capturing_thread != std::this_thread::get_id()) {
      stream->is_invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    auto captured = stream->host.end_capture();
    const bool is_invalidated = stream->is_invalidated;
    stream->is_capturing = stream->is_invalidated = false;
    *graph = nullptr;
    if (is_invalidated || !captured.ok()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    const std::uint64_t number = new_handle();
    state().graphs[number] = {captured.take(), stream->context};
    *graph = as_handle<CUgraph>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return call("cuStreamIsCapturing", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->is_legacy) {
      for (const auto& [number, other] : state().streams) {
        const bool is_its = other->context == stream->context && other->is_blocking;
        if (is_its && other->is_capturing) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
    *status = !stream->is_capturing      ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->is_invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
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
    if (stream->is_invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->is_capturing) {  // becomes part of that graph
      for (const auto& item : exec->second.launches->launches) stream->host.launch(item);
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
