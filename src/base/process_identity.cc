#include "base/process_identity.hpp"

#include <pthread.h>
#include <sys/random.h>

#include <mutex>

namespace lamppost {
namespace {

std::mutex g_mutex;
bool g_is_drawn = false;
ProcessIdentity g_identity{};

void forget() { g_is_drawn = false; }  // in a child, which has one thread

/// getrandom(2) gives up to 256 bytes whole or not at all.
void draw() {
  while (getrandom(&g_identity, sizeof(g_identity), 0) != sizeof(g_identity)) {
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
