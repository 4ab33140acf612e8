#include "support/scripted.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/core.h>

#include "support/fork_launcher.hpp"

namespace lamppost::test {
namespace {

constexpr char kMark[] = "lamppost_scripted_driver";
constexpr std::size_t kTextBytes = 1 << 16;
constexpr std::int64_t kChildTimeoutMs = 20'000;

const ScriptedDriver* open_driver() {
  void* library = dlopen(LAMPPOST_SCRIPTED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* mark = library == nullptr ? nullptr : dlsym(library, kMark);
  if (mark == nullptr) {
    std::fprintf(stderr, "no scripted driver: %s\n", dlerror());
    std::exit(2);
  }
  const ScriptedDriver* driver = reinterpret_cast<decltype(&lamppost_scripted_driver)>(mark)();
  if (const std::string reason = why_not_scripted(); !reason.empty()) {
    std::fprintf(stderr, "%s\n", reason.c_str());
    std::exit(2);
  }
  return driver;
}

}  // namespace

const ScriptedDriver& scripted_driver() {
  static const ScriptedDriver* driver = open_driver();
  return *driver;
}

std::string why_not_scripted() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return "this process has no libcuda.so.1";
  const bool is_marked = dlsym(library, kMark) != nullptr;
  dlclose(library);
  return is_marked ? "" : "the libcuda.so.1 of this process is not the scripted driver";
}

std::string why_switches_stay() {
  if (std::string reason = why_not_scripted(); !reason.empty()) return reason;
  std::error_code error;
  for (const auto& node : std::filesystem::directory_iterator("/dev", error)) {
    if (node.path().filename().string().starts_with("nvidia")) {
      return "this machine has " + node.path().string();
    }
  }
  return error ? "/dev cannot be read" : "";
}

std::vector<CallRecord> scripted_calls() {
  std::vector<CallRecord> calls;
  scripted_driver().visit_calls(
      [](void* context, const ScriptedCall& call) {
        static_cast<std::vector<CallRecord>*>(context)->push_back(
            {call.name, call.rank, call.result, call.detail});
      },
      &calls);
  return calls;
}

int count_calls(const std::string& name) {
  int count = 0;
  for (const CallRecord& call : scripted_calls()) count += call.name.starts_with(name) ? 1 : 0;
  return count;
}

std::string describe(const ScriptedHandles& open) {
  return fmt::format(
      "contexts {}, streams {}, events {}, modules {}, graphs {}, graph execs {}, allocations {}, "
      "reservations {}, mappings {}, registrations {}, device memory {}",
      open.contexts, open.streams, open.events, open.modules, open.graphs, open.graph_execs,
      open.allocations, open.reservations, open.mappings, open.registrations, open.device_memory);
}

std::string in_child(const Environment& environment, const std::function<std::string()>& body) {
  void* memory =
      mmap(nullptr, kTextBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return "mmap failed";
  char* text = static_cast<char*>(memory);
  const auto exits = run_ranks(
      1,
      [&](int) {
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        (void)scripted_driver();
        const std::string said = body();
        std::strncpy(text, said.c_str(), kTextBytes - 1);
        return 0;
      },
      {kChildTimeoutMs});
  std::string result = text;
  munmap(memory, kTextBytes);
  if (exits[0].timed_out) return fmt::format("hung ({} ms): {}", kChildTimeoutMs, result);
  if (exits[0].signal != 0) return fmt::format("ended by signal {}", exits[0].signal);
  if (!exits[0].ok()) return fmt::format("ended with {}", exits[0].exit_code);
  return result;
}

}  // namespace lamppost::test
