#include "base/process_identity.hpp"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

namespace lamppost {
namespace {

std::mutex g_mutex;
bool g_is_drawn = false;
ProcessIdentity g_identity{};

void forget() { g_is_drawn = false; }  // in a child, which has one thread

void draw() {
  for (auto* at = reinterpret_cast<char*>(&g_identity); at < reinterpret_cast<char*>(&g_identity + 1);) {
    const ssize_t got = getrandom(at, static_cast<std::size_t>(reinterpret_cast<char*>(&g_identity + 1) - at), 0);
    if (got > 0) at += got;  // a signal may cut it short
  }
}

}  // namespace

ProcessIdentity process_identity() {
  std::lock_guard lock(g_mutex);
  static const int registered = pthread_atfork(nullptr, nullptr, forget);
  (void)registered;
  if (!g_is_drawn) draw();
  g_is_drawn = true;
  return g_identity;
}

}  // namespace lamppost
