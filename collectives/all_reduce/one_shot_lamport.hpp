// One-shot Lamport all-reduce, with an epilogue type for what follows the sum.
//
// shape    A row is one tensor row (fused) or a block's worth of elements (plain). Blocks take rows by
//          turns; a thread takes 8-element fragments of the row. Any block of whole warps; any grid,
//          but the kernels of an exact world have one row a block and one fragment a thread, of whole calls
//          (OneShotArgs::is_whole).
// memory   Rank r's fragment f of row w lies, in every peer, at pack (w * fragments + f) * packs a
//          fragment of rank r's part of this call's generation (device/lamport.hpp has the picture).
// steps    1. Push every fragment of this rank's input, rounded as it is and free of sentinels, to
//             every peer; block 0 also sends headers.
//          2. Clear what the previous call wrote into its own generation.
//          3. Per fragment: poll the peers' packs, add all ranks in rank order from +0, round once,
//             give it to the epilogue. The own value never travels; it is encoded the same way.
//          4. Block 0 waits for every header, unless it found them all before its last row's outputs.
//          5. Leave: the last block out advances the call, and poisons the outputs if it failed.
// ordered  A block waits only for blocks of its own or a lower index elsewhere (the same index: grids
//          are equal on all ranks; block 0: headers), and pushes everything before it waits, so no
//          launch order of blocks can deadlock. Data words carry their own readiness.
// reuse    device/lamport.hpp. A rank late by a whole call finds its slots filled and waits for
//          nobody; a rank ahead waits in step 3 or 4 of the next call.
#pragma once

#include "collectives/all_reduce/epilogue.hpp"
#include "lamppost/device/lamport.hpp"

namespace lamppost {

template <class EpilogueShared>
struct OneShotShared {
  device::CallShared call;
  EpilogueShared epilogue;
};

/// Adds one fragment of all ranks in fp32, in rank order from +0, and rounds once. False: something has
/// not come yet. The sum is no -0: from +0 none can come, and a sum of 16-bit values is a multiple of
/// their smallest, so that it does not round to zero.
template <class T, class Element, class Session>
LAMPPOST_DEVICE bool sum_over_ranks(Session& session, std::uint32_t first_pack,
                                    const Fragment<Element>& own, Fragment<Element>& sum,
                                    typename Session::Missing& missing) {
  constexpr int kPacks = Fragment<Element>::kPacks;
  if constexpr (Session::kIsPair) {  // one addition; what was sent is no -0, so it needs no +0 before
    Fragment<Element> other;
    for (int p = 0; p < kPacks; ++p) {
      if (!session.receive_other(first_pack + p, other.pack[p], missing)) return false;
    }
    sum = device::add_fragments<T>(own, other);
  } else {
    constexpr int kElementsPerPack = kFragmentElements / kPacks;
    float values[kFragmentElements] = {};
    for (int p = 0; p < kPacks; ++p) {
      for (std::uint32_t rank = 0; rank < session.rank_count(); rank += Session::kBatch) {
        const auto add = [&](const device::Pack& pack) {
          Fragment<Element> part;
          part.pack[p] = pack;
          float more[kFragmentElements];
          device::widen<T>(part, more);
          for (int i = p * kElementsPerPack; i < (p + 1) * kElementsPerPack; ++i) {
            values[i] += more[i];
          }
        };
        if (!session.receive({first_pack + p, rank}, own.pack[p], add, missing)) return false;
      }
    }
    sum = device::round_fragment<T, Element>(values);
  }
  return true;
}

/// One thread's way through the call: its fragments in the order of rows and passes. The first one's
/// loads are issued before the control line is waited for.
template <class T, class Element, int kWorld, template <class, class, bool> class Epilogue>
class OneShotThread {
 public:
  static constexpr bool kIsSingle = kWorld != 0;
  using EpilogueHere = Epilogue<T, Element, kIsSingle>;
  using Session = device::LamportSession<T, kWorld>;
  static constexpr std::uint32_t kPacks = Fragment<Element>::kPacks;

  LAMPPOST_DEVICE OneShotThread(T& t, const OneShotArgs& args, EpilogueHere& epilogue)
      : t_(t), args_(args), epilogue_(epilogue) {
    const FragmentPlace place(args, t.block_rank(), t.thread_rank());
    has_first_ = place.index < args.row_fragments && place.fragment < args.fragments;
    if (has_first_) begin(place);
  }

  LAMPPOST_DEVICE void push(Session& session) {
    if (has_first_) {
      own_ = device::without_negative_zero<T>(own_);
      push_fragment(session, {args_, t_.block_rank(), t_.thread_rank()}, own_);
    }
    if constexpr (!kIsSingle) push_others(session);
  }

  /// Waits for one row and sums it; every thread of the block makes every pass.
  LAMPPOST_DEVICE void sum(Session& session, std::uint32_t row) {
    if constexpr (kIsSingle) {
      if (has_first_) sum_fragment(session, {args_, row, t_.thread_rank()});
      epilogue_.end_pass(0);
    } else {
      sum_passes(session, row);
    }
  }

 private:
  LAMPPOST_DEVICE void push_others(Session& session) {
    for (std::uint32_t row : over_blocks(t_, args_.rows)) {
      const std::uint32_t done = row == t_.block_rank() ? t_.block_threads() : 0;
      const std::uint32_t fragments = fragments_of_row(args_, row);
      for (std::uint32_t index = done + t_.thread_rank(); index < fragments;
           index += t_.block_threads()) {
        const FragmentPlace place(args_, row, index);
        push_fragment(session, place, device::without_negative_zero<T>(input(place)));
      }
    }
  }

  LAMPPOST_DEVICE void sum_passes(Session& session, std::uint32_t row) {
    const std::uint32_t fragments = fragments_of_row(args_, row);
    for (std::uint32_t first = 0, pass = 0; first < fragments;
         first += t_.block_threads(), ++pass) {
      const std::uint32_t index = first + t_.thread_rank();
      if (index < fragments) sum_fragment(session, {args_, row, index});
      epilogue_.end_pass(pass);
    }
  }

  LAMPPOST_DEVICE Fragment<Element> input(const FragmentPlace& place) {
    return load_at<kIsSingle, T, Element>(t_, args_, args_.in, place);
  }
  LAMPPOST_DEVICE void push_fragment(Session& session, const FragmentPlace& place,
                                     const Fragment<Element>& fragment) {
    for (std::uint32_t p = 0; p < kPacks; ++p) {
      session.push(place.fragment * kPacks + p, fragment.pack[p]);
    }
  }

  LAMPPOST_DEVICE void begin(const FragmentPlace& place) {
    own_ = input(place);
    epilogue_.begin(place);
  }
  /// For a fragment that is not pushed here.
  LAMPPOST_DEVICE void begin_sum(const FragmentPlace& place) {
    begin(place);
    own_ = device::without_negative_zero<T>(own_);
  }

  LAMPPOST_DEVICE void sum_fragment(Session& session, const FragmentPlace& place) {
    const bool is_first =
        kIsSingle || (place.row == t_.block_rank() && place.index == t_.thread_rank());
    if (!is_first) begin_sum(place);
    epilogue_.prepare(place);
    Fragment<Element> sum;
    typename Session::Missing missing;
    while (!sum_over_ranks<T>(session, place.fragment * kPacks, own_, sum, missing)) {
      if (!session.wait(missing)) {
        sum = nan_fragment<T, Element>();
        break;
      }
      begin_sum(place);  // so that nothing has to be kept through the wait
      epilogue_.prepare(place);
    }
    if (is_first) session.begin_headers();
    for (std::uint32_t p = 0; p < kPacks; ++p) session.release(place.fragment * kPacks + p);
    epilogue_.accept(place, sum);
  }

  T& t_;
  const OneShotArgs& args_;
  EpilogueHere& epilogue_;
  bool has_first_ = false;
  Fragment<Element> own_;  // from begin() to its sum; as it is sent
};

/// 3. Every row of this block. After the last row's waits the block may be counted out.
template <device::Target T, class Thread>
LAMPPOST_DEVICE void sum_rows(T& t, const OneShotArgs& args, device::Call<T>& call,
                              typename Thread::Session& session, Thread& thread,
                              typename Thread::EpilogueHere& epilogue) {
  if constexpr (Thread::kIsSingle) {
    thread.sum(session, t.block_rank());
    call.arrive_early(session.look_at_headers());
    epilogue.end_row(t.block_rank());
  } else {
    for (std::uint32_t row : over_blocks(t, args.rows)) {
      thread.sum(session, row);
      if (row + t.grid_blocks() >= args.rows) {
        call.arrive_early(session.look_at_headers());
      } else if (Thread::EpilogueHere::kMeetsBetweenRows) {
        t.block_sync();
      }
      epilogue.end_row(row);
    }
  }
}

template <device::Target T, class Element, int kWorld, template <class, class, bool> class Epilogue>
LAMPPOST_DEVICE void one_shot_lamport(T& t, const OneShotArgs& args) {
  using Thread = OneShotThread<T, Element, kWorld, Epilogue>;
  using EpilogueHere = typename Thread::EpilogueHere;
  using Call = device::Call<T>;
  auto& shared = t.template shared<OneShotShared<typename EpilogueHere::Shared>>();
  const device::CallStart start = Call::start(t, args.call);
  EpilogueHere epilogue(t, args, shared.epilogue);
  Thread thread(t, args, epilogue);
  Call call(t, args.call, shared.call, start);
  typename Thread::Session session(call);

  if (call.is_active()) {
    // 1. Push.
    call.delay_if_planted(device::Phase::kPublish);
    session.push_headers();
    thread.push(session);
    call.describe();
    // 2. Clear.
    session.clear_previous();
    // 3. Sum and finish.
    call.delay_if_planted(device::Phase::kData);
    sum_rows(t, args, call, session, thread, epilogue);
    // 4. Headers.
    call.delay_if_planted(device::Phase::kHeader);
    session.wait_for_headers();
  } else {
    call.describe();
  }
  // 5. Leave.
  call.leave([&] { epilogue.poison(); });
}

}  // namespace lamppost
