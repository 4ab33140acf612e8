// The scripted driver: streams over HostStream, events, copies and fills in stream order. The legacy
// stream waits for the blocking streams of its context, and they for it.
#include "scripted_driver/state.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace lamppost::test::scripted {
namespace {

struct CopyArgs {
  void* to;
  const void* from;
  std::size_t bytes;
};
struct FillArgs {
  void* to;
  std::uint32_t word;
  std::uint32_t word_bytes;
  std::size_t count;
};
struct MomentArgs {
  HostProgress* moment;
};
struct WordArgs {
  const std::uint32_t* address;
  std::uint32_t value;
};

void run_copy(device::HostThread&, const void* args) {
  const auto& copy = *static_cast<const CopyArgs*>(args);
  std::memcpy(copy.to, copy.from, copy.bytes);
}
void run_fill(device::HostThread&, const void* args) {
  const auto& fill = *static_cast<const FillArgs*>(args);
  if (fill.word_bytes == 1) {
    std::memset(fill.to, static_cast<int>(fill.word), fill.count);
  } else {
    std::fill_n(static_cast<std::uint32_t*>(fill.to), fill.count, fill.word);
  }
}
void run_record(device::HostThread&, const void* args) {
  static_cast<const MomentArgs*>(args)->moment->advance(1);
}
void run_wait(device::HostThread&, const void* args) {
  static_cast<const MomentArgs*>(args)->moment->wait(1);
}
/// CU_STREAM_WAIT_VALUE_GEQ: cyclic.
void run_wait_for_word(device::HostThread&, const void* args) {
  const auto& wanted = *static_cast<const WordArgs*>(args);
  while (static_cast<std::int32_t>(__atomic_load_n(wanted.address, __ATOMIC_ACQUIRE) -
                                   wanted.value) < 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

constexpr device::HostKernel kCopy{"copy", run_copy, nullptr, 1, sizeof(CopyArgs), 0};
constexpr device::HostKernel kFill{"fill", run_fill, nullptr, 1, sizeof(FillArgs), 0};
constexpr device::HostKernel kRecord{"record", run_record, nullptr, 1, sizeof(MomentArgs), 0};
constexpr device::HostKernel kWait{"wait", run_wait, nullptr, 1, sizeof(MomentArgs), 0};
constexpr device::HostKernel kWaitForWord{"wait for word", run_wait_for_word, nullptr, 1,
                                          sizeof(WordArgs), 0};

/// A stream of the current context; null: no handle, or another context's.
std::shared_ptr<Stream> own_stream(CUstream handle) {
  auto stream = find_stream(handle);
  return stream != nullptr && stream->context == current_context() ? stream : nullptr;
}

/// `device_address`: what must be memory of the driver.
CUresult enqueue_on(CUstream handle, CUdeviceptr device_address, std::size_t bytes,
                    const HostLaunchItem& item) {
  const std::lock_guard lock(state().mutex);
  const auto stream = own_stream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes != 0 && !is_open_to(device_address, bytes, stream->context->device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return bytes == 0 ? CUDA_SUCCESS : enqueue(*stream, item);
}

/// A wait for an event of a capture draws a stream into it, or joins two of its streams.
CUresult wait_in_capture(Stream& stream, const Event& event) {
  if (stream.is_legacy || event.capture->first == nullptr) {  // that capture is over
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream.capture != nullptr && stream.capture != event.capture) {
    stream.capture->is_invalidated = event.capture->is_invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  Capture& capture = *event.capture;
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.captured_work = 1;  // a stream that was drawn in must be waited for
    capture.to_join[&stream] = 0;
  } else if (&stream == capture.first && event.stream != capture.first) {
    capture.to_join[event.stream] = event.captured_work;
  }
  return CUDA_SUCCESS;
}

/// What may not be asked of a stream that is being captured; breaks the capture.
CUresult refuse_if_capturing(Stream& stream) {
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  stream.capture->is_invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

std::shared_ptr<Stream> find_stream(CUstream handle) {
  State& all = state();
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    Context* context = current_context();
    auto& legacy = all.legacy_streams[context];
    if (legacy == nullptr) {
      legacy = std::make_shared<Stream>();
      legacy->context = context;
      legacy->is_legacy = true;
      legacy->id = new_handle();
    }
    return legacy;
  }
  const auto found = all.streams.find(number_of(handle));
  return found == all.streams.end() ? nullptr : found->second;
}

CUresult order_with_legacy(Stream& stream) {
  State& all = state();
  if (stream.is_legacy) {
    for (auto& [handle, other] : all.streams) {
      if (other->context != stream.context || !other->is_blocking) continue;
      if (other->capture != nullptr) {
        other->capture->is_invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      stream.host.wait_for_stream(other->host);
    }
  } else if (stream.is_blocking && stream.capture == nullptr) {
    const auto legacy = all.legacy_streams.find(stream.context);
    if (legacy != all.legacy_streams.end()) stream.host.wait_for_stream(legacy->second->host);
  }
  return CUDA_SUCCESS;
}

CUresult enqueue(Stream& stream, const HostLaunchItem& item) {
  if (stream.capture != nullptr) {
    if (stream.capture->is_invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    ++stream.captured_work;
    stream.capture->first->host.launch(item);
    return CUDA_SUCCESS;
  }
  const CUresult ordered = order_with_legacy(stream);
  if (ordered == CUDA_SUCCESS) stream.host.launch(item);
  return ordered;
}

void let_go(std::shared_ptr<Stream> stream) {
  if (stream->host.drain(0)) return;
  // The last holder waits for the work; that must not be a caller, and not with the lock held.
  std::thread([held = std::move(stream)]() mutable {
    held->host.synchronize();
    held.reset();
  }).detach();
}

}  // namespace lamppost::test::scripted

using namespace lamppost::test::scripted;
using Lock = std::lock_guard<std::mutex>;

CUresult CUDAAPI cuStreamCreate(CUstream* handle, unsigned flags) {
  return call("cuStreamCreate", kNeedsInit | kNeedsContext, [&] {
    if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto stream = std::make_shared<Stream>();
    const Lock lock(state().mutex);
    stream->context = current_context();
    stream->is_blocking = flags == CU_STREAM_DEFAULT;
    const std::uint64_t number = new_handle();
    stream->id = number;
    state().streams[number] = std::move(stream);
    *handle = as_handle<CUstream>(number);
    return CUDA_SUCCESS;
  });
}

/// Returns at once; work that is on the stream still runs.
CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  return call("cuStreamDestroy", kNeedsInit | kNeedsContext | kActsAnyway, [&] {
    std::shared_ptr<Stream> stream;
    {
      const Lock lock(state().mutex);
      const auto found = state().streams.find(number_of(handle));
      if (found == state().streams.end()) return CUDA_ERROR_INVALID_HANDLE;
      const CUresult refused = refuse_if_capturing(*found->second);
      if (refused != CUDA_SUCCESS) return refused;
      stream = std::move(found->second);
      state().streams.erase(found);
    }
    let_go(std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  return call("cuStreamSynchronize", kNeedsInit | kNeedsContext | kUnsafeInCapture | kActsAnyway,
              [&] {
                std::shared_ptr<Stream> stream;
                {
                  const Lock lock(state().mutex);
                  stream = find_stream(handle);
                  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
                  CUresult result = refuse_if_capturing(*stream);
                  if (result == CUDA_SUCCESS && stream->is_legacy) {
                    result = order_with_legacy(*stream);
                  }
                  if (result != CUDA_SUCCESS) return result;
                }
                stream->host.synchronize();
                return CUDA_SUCCESS;
              });
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  return call("cuStreamGetId", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto stream = find_stream(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult refused = refuse_if_capturing(*stream);  // so does the real driver
    if (refused == CUDA_SUCCESS) *id = stream->id;
    return refused;
  });
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream handle, CUdeviceptr address, cuuint32_t value,
                                     unsigned flags) {
  return call("cuStreamWaitValue32", kNeedsInit | kNeedsContext, [&] {
    if (flags != CU_STREAM_WAIT_VALUE_GEQ || address % 4 != 0) return CUDA_ERROR_INVALID_VALUE;
    return enqueue_on(handle, address, 4,
                      item_of(kWaitForWord,
                              WordArgs{reinterpret_cast<const std::uint32_t*>(address), value}));
  });
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return call("cuMemcpyHtoDAsync", kNeedsInit | kNeedsContext, [&] {
    return enqueue_on(stream, to, bytes,
                      item_of(kCopy, CopyArgs{reinterpret_cast<void*>(to), from, bytes}));
  });
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync", kNeedsInit | kNeedsContext, [&] {
    return enqueue_on(stream, from, bytes,
                      item_of(kCopy, CopyArgs{to, reinterpret_cast<const void*>(from), bytes}));
  });
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream) {
  return call("cuMemsetD8Async", kNeedsInit | kNeedsContext, [&] {
    return enqueue_on(stream, to, count,
                      item_of(kFill, FillArgs{reinterpret_cast<void*>(to), value, 1, count}));
  });
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return call("cuMemsetD32Async", kNeedsInit | kNeedsContext, [&] {
    if (to % 4 != 0) return CUDA_ERROR_INVALID_VALUE;
    return enqueue_on(stream, to, count * 4,
                      item_of(kFill, FillArgs{reinterpret_cast<void*>(to), value, 4, count}));
  });
}

CUresult CUDAAPI cuEventCreate(CUevent* handle, unsigned flags) {
  return call("cuEventCreate", kNeedsInit | kNeedsContext, [&] {
    constexpr unsigned kKnown = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    const Lock lock(state().mutex);
    const std::uint64_t number = new_handle();
    state().events[number].context = current_context();
    *handle = as_handle<CUevent>(number);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent handle) {
  return call("cuEventDestroy", kNeedsInit | kNeedsContext | kActsAnyway, [&] {
    const Lock lock(state().mutex);
    return state().events.erase(number_of(handle)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle) {
  return call("cuEventRecord", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto event = state().events.find(number_of(handle));
    const auto stream = find_stream(stream_handle);
    if (event == state().events.end() || stream == nullptr ||
        event->second.context != stream->context) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    event->second.capture = stream->capture;
    event->second.stream = stream.get();
    event->second.captured_work = stream->captured_work;
    if (stream->capture != nullptr) return CUDA_SUCCESS;
    event->second.recorded = &state().moments.emplace_back();
    return enqueue(*stream, item_of(kRecord, MomentArgs{event->second.recorded}));
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  return call("cuStreamWaitEvent", kNeedsInit | kNeedsContext, [&] {
    const Lock lock(state().mutex);
    const auto event = state().events.find(number_of(handle));
    const auto stream = find_stream(stream_handle);
    if (event == state().events.end() || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->second.capture != nullptr) return wait_in_capture(*stream, event->second);
    if (event->second.recorded == nullptr) return CUDA_SUCCESS;
    if (stream->capture != nullptr) {
      stream->capture->is_invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    return enqueue(*stream, item_of(kWait, MomentArgs{event->second.recorded}));
  });
}
