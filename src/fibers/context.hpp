// The machine part of a fiber: making one and switching to it. Boost.Context where it is installed
// (about 6 ns a switch), POSIX ucontext elsewhere (about 230 ns: it makes system calls).
#pragma once

#include <cstddef>

#if defined(LAMPPOST_FIBERS_UCONTEXT)
#include <ucontext.h>
#else
#include <boost/context/detail/fcontext.hpp>
#endif

namespace lamppost::fibers {

/// A stopped flow of control. Filled by switch_context (the one that stops) or make_context.
#if defined(LAMPPOST_FIBERS_UCONTEXT)

struct Context {
  ucontext_t machine;
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.machine, &to.machine); }

/// `kMain` runs on the stack when first switched to, and must never return.
template <void (*kMain)()>
void make_context(Context& context, std::byte* stack, std::size_t stack_bytes) {
  getcontext(&context.machine);
  context.machine.uc_stack.ss_sp = stack;
  context.machine.uc_stack.ss_size = stack_bytes;
  context.machine.uc_link = nullptr;
  makecontext(&context.machine, kMain, 0);
}

#else

struct Context {
  boost::context::detail::fcontext_t machine = nullptr;
};

inline void keep_previous(const boost::context::detail::transfer_t& transfer) {
  static_cast<Context*>(transfer.data)->machine = transfer.fctx;
}

inline void switch_context(Context& from, Context& to) {
  keep_previous(boost::context::detail::jump_fcontext(to.machine, &from));
}

template <void (*kMain)()>
void entry_point(boost::context::detail::transfer_t transfer) {
  keep_previous(transfer);
  kMain();
}

/// `kMain` runs on the stack when first switched to, and must never return.
template <void (*kMain)()>
void make_context(Context& context, std::byte* stack, std::size_t stack_bytes) {
  context.machine = boost::context::detail::make_fcontext(stack + stack_bytes, stack_bytes,
                                                          &entry_point<kMain>);
}

#endif

}  // namespace lamppost::fibers
