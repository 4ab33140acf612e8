// Records, failures on demand, and what every call needs; the functions of scripted_driver.hpp.
#include "scripted_driver/state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "scripted_driver/scripted_driver.hpp"

namespace lamppost::test::scripted {
namespace {

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// FAIL_CALL=name:nth:code
Failure failure_from_environment() {
  const char* text = std::getenv("FAIL_CALL");
  if (text == nullptr) return {};
  Failure failure;
  const char* colon = std::strchr(text, ':');
  const char* second = colon == nullptr ? nullptr : std::strchr(colon + 1, ':');
  if (second == nullptr) {
    (void)!write(2, "FAIL_CALL must be name:nth:code\n", 32);
    std::abort();
  }
  failure.name.assign(text, colon);
  failure.nth = std::atoi(colon + 1);
  failure.code = std::atoi(second + 1);
  return failure;
}

CUresult injected_result(State& all, const char* name) {
  Failure& failure = all.failure;
  if (failure.name != name) return CUDA_SUCCESS;
  if (failure.rank >= 0 && failure.rank != this_thread().rank) return CUDA_SUCCESS;
  return ++failure.seen == failure.nth ? static_cast<CUresult>(failure.code) : CUDA_SUCCESS;
}

/// Whether a capture forbids potentially unsafe calls to `thread`.
bool forbids(const Stream& stream, const ThreadState& thread) {
  if (stream.capture == nullptr || stream.capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return false;
  }
  if (thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (stream.capture->thread == std::this_thread::get_id()) return true;
  return thread.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         stream.capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult refusal(State& all, unsigned traits) {
  if (traits == kAlways) return CUDA_SUCCESS;
  if (!all.is_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if ((traits & kNeedsContext) != 0 && current_context() == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if ((traits & kUnsafeInCapture) != 0) {
    for (const auto& [handle, stream] : all.streams) {
      if (!forbids(*stream, this_thread())) continue;
      invalidate_captures_that_forbid(this_thread());
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

void write_log(const State& all, const Record& record) {
  if (all.settings.log_descriptor < 0) return;
  std::string line = std::to_string(getpid()) + ' ' + std::to_string(record.rank) + ' ' +
                     record.name + ' ' + std::to_string(static_cast<int>(record.result));
  if (!record.detail.empty()) line += ' ' + record.detail;
  line += '\n';
  (void)!write(all.settings.log_descriptor, line.data(), line.size());
}

void set_rank(int rank) { this_thread().rank = rank; }

void set_failure(const char* name, int nth, int code, int rank) {
  const std::lock_guard lock(state().mutex);
  state().failure = Failure{name == nullptr ? "" : name, nth, code, rank, 0};
}

bool has_failed() {
  const std::lock_guard lock(state().mutex);
  const Failure& failure = state().failure;
  return !failure.name.empty() && failure.seen >= failure.nth;
}

ScriptedHandles open_handles() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  ScriptedHandles open;
  for (const Context& context : all.contexts) open.contexts += context.retain_count;
  open.streams = static_cast<int>(all.streams.size());
  open.events = static_cast<int>(all.events.size());
  open.modules = static_cast<int>(all.modules.size());
  open.graphs = static_cast<int>(all.graphs.size());
  open.graph_execs = static_cast<int>(all.graph_execs.size());
  open.allocations = all.open_allocations;
  open.reservations = static_cast<int>(all.reservations.size());
  open.mappings = static_cast<int>(all.mappings.size());
  open.registrations = static_cast<int>(all.registrations.size());
  open.device_memory = static_cast<int>(all.device_memory.size());
  return open;
}

void visit_calls(void (*visit)(void* context, const ScriptedCall& call), void* context) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = all.first_visible; i < all.records.size(); ++i) {
    const Record& record = all.records[i];
    visit(context, {record.name, record.rank, static_cast<int>(record.result),
                    record.detail.c_str()});
  }
}

void clear_calls() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.first_visible = all.records.size();  // a call that has begun still writes to its record
}

}  // namespace

State::State() {
  settings.device_count = setting("LAMPPOST_SCRIPTED_DEVICES", 2);
  settings.first_device = setting("LAMPPOST_SCRIPTED_FIRST_DEVICE", 0);
  settings.ptx_version = setting("LAMPPOST_SCRIPTED_PTX_VERSION", 90);
  settings.has_image = setting("LAMPPOST_SCRIPTED_NO_IMAGE", 0) == 0;
  settings.has_host_pointer = setting("LAMPPOST_SCRIPTED_HOST_POINTER", 1) != 0;
  settings.has_peer_access = setting("LAMPPOST_SCRIPTED_PEER_ACCESS", 1) != 0;
  settings.has_pageable_access = setting("LAMPPOST_SCRIPTED_PAGEABLE", 0) != 0;
  settings.has_fabric = setting("LAMPPOST_SCRIPTED_FABRIC", 0) != 0;
  settings.has_multicast = setting("LAMPPOST_SCRIPTED_MULTICAST", 0) != 0;
  if (const char* path = std::getenv("LAMPPOST_SCRIPTED_LOG")) {
    settings.log_descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }
  failure = failure_from_environment();
  for (int device = 0; device < settings.device_count; ++device) contexts.push_back({device, 0});
}

State& state() {
  static auto* all = new State();  // as long as the process: threads may still be in a call
  return *all;
}

ThreadState& this_thread() {
  thread_local ThreadState thread;
  return thread;
}

bool is_active(const Context* context) {
  for (const Context& known : state().contexts) {
    if (&known == context) return known.retain_count > 0;
  }
  return false;
}

Context* current_context() {
  const ThreadState& thread = this_thread();
  if (thread.contexts.empty()) return nullptr;
  return is_active(thread.contexts.back()) ? thread.contexts.back() : nullptr;
}

void invalidate_captures_that_forbid(const ThreadState& thread) {
  for (auto& [handle, stream] : state().streams) {
    if (forbids(*stream, thread)) stream->capture->is_invalidated = true;
  }
}

Beginning begin_call(const char* name, unsigned traits) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.records.push_back({name, this_thread().rank, CUDA_ERROR_UNKNOWN, {}});
  const CUresult injected = injected_result(all, name);
  return {all.records.size() - 1, refusal(all, traits), injected};
}

CUresult end_call(const Beginning& beginning, CUresult result, std::string detail) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  Record& record = all.records[beginning.record];
  record.result = result;
  record.detail = std::move(detail);
  write_log(all, record);
  return result;
}

const ScriptedDriver kDriver = {set_rank,     set_failure, has_failed,
                                open_handles, visit_calls, clear_calls};

}  // namespace lamppost::test::scripted

extern "C" __attribute__((visibility("default"))) const lamppost::test::ScriptedDriver*
lamppost_scripted_driver() {
  return &lamppost::test::scripted::kDriver;
}
