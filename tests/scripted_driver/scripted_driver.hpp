// What a test can ask the scripted driver (the fake libcuda.so.1 of this folder), beside calling it:
// what is open, what was called, and that a call shall fail. Found by dlsym: its one exported symbol
// that the real driver lacks, lamppost_scripted_driver, is the mark by which a process knows that
// no real GPU is behind its libcuda.so.1.
//
// Thread safety: everything from any thread. No cuda.h: a CUresult is an int here.
#pragma once

namespace lamppost::test {

/// One call of the driver, in the order in which calls began.
struct ScriptedCall {
  const char* name;    // without the version: "cuMemAlloc"
  int rank;            // what set_rank() said on the calling thread; -1: nothing
  int result;          // CUresult
  const char* detail;  // launches: "KERNEL grid=2 block=64 cluster=1 early=0"; else empty
};

/// What is open in this process.
struct ScriptedHandles {
  int contexts = 0;  // retain counts of all primary contexts
  int streams = 0;
  int events = 0;
  int modules = 0;
  int graphs = 0;
  int graph_execs = 0;
  int allocations = 0;   // handles not released, and memory that is still mapped
  int reservations = 0;  // address ranges
  int mappings = 0;
  int registrations = 0;  // of host memory
  int device_memory = 0;  // cuMemAlloc
  friend bool operator==(const ScriptedHandles&, const ScriptedHandles&) = default;
};

struct ScriptedDriver {
  /// Calls of this thread belong to `rank` from now on.
  void (*set_rank)(int rank);
  /// From now on the nth call (from 1) of `name` by `rank` (-1: by anyone) returns `code`. Calls that
  /// release something or wait do so all the same, as the real driver does when it passes on an
  /// earlier error. One failure at a time; null: none.
  void (*set_failure)(const char* name, int nth, int code, int rank);
  /// Whether the failure that was asked for has happened.
  bool (*has_failed)();
  ScriptedHandles (*open_handles)();
  void (*visit_calls)(void (*visit)(void* context, const ScriptedCall& call), void* context);
  void (*clear_calls)();
};

}  // namespace lamppost::test

extern "C" const lamppost::test::ScriptedDriver* lamppost_scripted_driver();
