// What the scripted driver holds: one State a process, its objects by handle. Every exported function
// goes through call(), which records it, makes it fail when asked to, and checks what all calls
// need (initialised, a current context, no capture that forbids it).
//
// Thread safety: State::mutex guards every object here; nothing blocks while it is held.
#pragma once

// What cuda.h declares is what the library exports.
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include "driver/host_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace lamppost::test::scripted {

inline constexpr std::size_t kGranularity = 2u << 20;
inline constexpr int kMaxBlockThreads = 128;
inline constexpr int kProcessors = 4;

struct Context {
  CUdevice device = 0;
  int retain_count = 0;
};

struct Stream;

/// A capture; its steps are kept by the first stream's HostStream, in the order in which they were made.
struct Capture {
  std::uint64_t id = 0;
  Stream* first = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool is_invalidated = false;
  std::map<Stream*, std::uint64_t> to_join;  // drawn in; the work that the first stream has waited for
};

struct Stream {
  Context* context = nullptr;
  bool is_blocking = false;  // waits for the legacy stream, and it for this one
  bool is_legacy = false;
  std::uint64_t id = 0;
  HostStream host;
  /// Null: not captured. Streams that an event drew into a capture share it with its first stream.
  std::shared_ptr<Capture> capture;
  std::uint64_t captured_work = 0;  // steps of this stream in its capture
};

struct Event {
  Context* context = nullptr;
  HostProgress* recorded = nullptr;  // null: never recorded; reaches 1
  // Recorded in a capture: which, where, and after which step.
  std::shared_ptr<Capture> capture;
  Stream* stream = nullptr;
  std::uint64_t captured_work = 0;
};

struct Module {
  Context* context = nullptr;
};

struct Function {
  std::uint64_t module = 0;
  Context* context = nullptr;
  const device::HostKernel* kernel = nullptr;
};

struct Graph {
  std::shared_ptr<const HostGraph> launches;
  Context* context = nullptr;
};

/// Memory of cuMemCreate or an import; closed when its handle is released and it is mapped nowhere.
struct Allocation {
  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();
  int descriptor = -1;
  std::size_t bytes = 0;
  bool is_exportable = false;
};

struct Mapping {
  std::size_t bytes = 0;
  std::shared_ptr<Allocation> allocation;
  std::set<CUdevice> open_to;
};

struct Registration {
  std::size_t bytes = 0;
  unsigned flags = 0;
  std::byte* device_address = nullptr;  // the same, or a second mapping
};

struct DeviceMemory {
  std::size_t bytes = 0;
  CUdevice device = 0;
};

struct Failure {
  std::string name;  // empty: none
  int nth = 0;
  int code = 0;
  int rank = -1;
  int seen = 0;
};

struct Record {
  const char* name;
  int rank;
  CUresult result;
  std::string detail;
};

/// From LAMPPOST_SCRIPTED_*, read at the first call (README.md lists them).
struct Settings {
  int device_count = 2;
  int first_device = 0;
  int ptx_version = 90;
  bool has_image = true;
  bool has_host_pointer = true;
  bool has_peer_access = true;
  bool has_pageable_access = false;
  bool has_fabric = false;
  bool has_multicast = false;
  int log_descriptor = -1;
};

struct State {
  State();

  std::mutex mutex;
  Settings settings;
  bool is_initialised = false;
  std::deque<Context> contexts;  // by device
  std::map<std::uint64_t, std::shared_ptr<Stream>> streams;
  std::map<Context*, std::shared_ptr<Stream>> legacy_streams;
  std::map<std::uint64_t, Event> events;
  std::map<std::uint64_t, Module> modules;
  std::map<std::uint64_t, Function> functions;
  std::map<std::uint64_t, Graph> graphs;
  std::map<std::uint64_t, Graph> graph_execs;
  std::map<std::uint64_t, std::shared_ptr<Allocation>> allocations;
  std::map<std::uintptr_t, std::size_t> reservations;
  std::map<std::uintptr_t, Mapping> mappings;
  std::map<std::uintptr_t, Registration> registrations;
  std::map<std::uintptr_t, DeviceMemory> device_memory;
  std::deque<HostProgress> moments;  // of recorded events; kept for ever
  int open_allocations = 0;
  std::uint64_t next_handle = 0x1000;
  std::deque<Record> records;
  std::size_t first_visible = 0;  // earlier records were cleared
  Failure failure;
};

State& state();

/// What a thread has: its stack of contexts, its capture mode, its rank in the test.
struct ThreadState {
  std::vector<Context*> contexts;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  int rank = -1;
};
ThreadState& this_thread();

/// The current context; null: none. A context that was released for the last time counts as none.
Context* current_context();
bool is_active(const Context* context);

/// What a call needs, and how it fails on demand.
enum Trait : unsigned {
  kAlways = 0,
  kNeedsInit = 1,
  kNeedsContext = 2,
  kUnsafeInCapture = 4,  // forbidden where a capture's mode says so; breaks that capture
  kActsAnyway = 8,       // releases or waits: done even if it shall fail
};

/// How one call begins: recorded; the result that is already settled, or CUDA_SUCCESS.
struct Beginning {
  std::size_t record;
  CUresult refused;
  CUresult injected;
};
Beginning begin_call(const char* name, unsigned traits);
CUresult end_call(const Beginning& beginning, CUresult result, std::string detail = {});

template <class Body>
CUresult call(const char* name, unsigned traits, Body body) {
  const Beginning beginning = begin_call(name, traits);
  if (beginning.refused != CUDA_SUCCESS) return end_call(beginning, beginning.refused);
  if (beginning.injected != CUDA_SUCCESS && (traits & kActsAnyway) == 0) {
    return end_call(beginning, beginning.injected);
  }
  const CUresult result = body();
  return end_call(beginning, beginning.injected != CUDA_SUCCESS ? beginning.injected : result);
}

/// A handle is a number that is never used again; what is no handle of that kind is not found.
inline std::uint64_t new_handle() { return state().next_handle += 0x10; }
template <class Handle>
Handle as_handle(std::uint64_t number) {
  return reinterpret_cast<Handle>(number);
}
template <class Handle>
std::uint64_t number_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

// With State::mutex held:
/// Whether [address, address + bytes) is device memory that `device` may touch.
bool is_open_to(std::uintptr_t address, std::size_t bytes, CUdevice device);
/// Whether a kernel on `device` must not be given this address (it lies in memory of the driver that
/// is not mapped, not open to the device, or is a host address where devices have their own).
bool is_trap(std::uintptr_t address, CUdevice device);
void free_memory_of(CUdevice device);
/// The stream of a handle, the legacy stream of the current context for 0 and 1; null: none.
std::shared_ptr<Stream> find_stream(CUstream handle);
/// Whether kernels on any device may be given this address of the driver's memory.
bool is_known(std::uintptr_t address);
/// Orders blocking streams with the legacy stream before something is enqueued on `stream`.
CUresult order_with_legacy(Stream& stream);
CUresult enqueue(Stream& stream, const HostLaunchItem& item);
void invalidate_captures_that_forbid(const ThreadState& thread);

/// Destroys streams; those with work end on a thread of their own.
void let_go(std::shared_ptr<Stream> stream);

/// A kernel of one thread that does something in stream order (copies, events).
template <class Args>
HostLaunchItem item_of(const device::HostKernel& kernel, const Args& args) {
  HostLaunchItem item{};
  item.kernel = &kernel;
  item.grid_blocks = 1;
  item.block_threads = 1;
  __builtin_memcpy(item.args.data(), &args, sizeof(args));
  return item;
}

}  // namespace lamppost::test::scripted
