// What the sanitizers must be told about fibers. Without a sanitizer everything here is empty.
// The scheduler is compiled without either, so LAMPPOST_TSAN and LAMPPOST_ASAN come from the build; orders
// that the GPU gives (launch, barrier, lane exchange) are stated by tsan_release/tsan_acquire, and a
// switch of fibers states none (flag 1).
#pragma once

#include <cstddef>

#if defined(LAMPPOST_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif
#if defined(LAMPPOST_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace lamppost::fibers {

#if defined(LAMPPOST_TSAN)
inline void* tsan_current_fiber() { return __tsan_get_current_fiber(); }
inline void* tsan_create_fiber() { return __tsan_create_fiber(0); }
inline void tsan_destroy_fiber(void* fiber) { __tsan_destroy_fiber(fiber); }
inline void tsan_switch(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }
inline void tsan_acquire(void* address) { __tsan_acquire(address); }
inline void tsan_release(void* address) { __tsan_release(address); }
#else
inline void* tsan_current_fiber() { return nullptr; }
inline void* tsan_create_fiber() { return nullptr; }
inline void tsan_destroy_fiber(void*) {}
inline void tsan_switch(void*) {}
inline void tsan_acquire(void*) {}
inline void tsan_release(void*) {}
#endif

#if defined(LAMPPOST_ASAN)
/// `keep` null: the fiber that is left never runs again.
inline void asan_before_switch(void** keep, const void* stack, std::size_t stack_bytes) {
  __sanitizer_start_switch_fiber(keep, stack, stack_bytes);
}
inline void asan_after_switch(void* kept, const void** old_stack, std::size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(kept, old_stack, old_bytes);
}
#else
inline void asan_before_switch(void**, const void*, std::size_t) {}
inline void asan_after_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace lamppost::fibers
