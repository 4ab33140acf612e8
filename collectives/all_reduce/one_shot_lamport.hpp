// One-shot Lamport all-reduce, with an epilogue type for what follows the sum.
//
// shape    A row is one tensor row (fused) or a block's worth of elements (plain). Blocks take rows by
//          turns; a thread takes 8-element fragments of the row. Any block of whole warps; any grid,
//          but the kernels of an exact world have one row a block and one fragment a thread.
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

/// Adds one fragment of all ranks, in rank order from +0. False: something has not come yet.
template <class T, class Element, class Session>
LAMPPOST_DEVICE bool add_over_ranks(Session& session, std::uint32_t first_pack,
                                    const Fragment<Element>& own, float (&sum)[kFragmentElements],
                                    typename Session::Missing& missing) {
  constexpr int kElementsPerPack = kFragmentElements / Fragment<Element>::kPacks;
  for (float& value : sum) value = 0.0f;
  for (int p = 0; p < Fragment<Element>::kPacks; ++p) {
    for (std::uint32_t rank = 0; rank < session.rank_count(); rank += Session::kBatch) {
      const auto add = [&](const device::Pack& pack) {
        Fragment<Element> part;
        part.pack[p] = pack;
        float values[kFragmentElements];
        device::widen<T>(part, values);
        for (int i = p * kElementsPerPack; i < (p + 1) * kElementsPerPack; ++i) sum[i] += values[i];
      };
      if (!session.receive({first_pack + p, rank}, own.pack[p], add, missing)) return false;
    }
  }
  return true;
}

/// One thread's way through the call: its fragments in the order of rows and passes. The first one's
/// loads are issued before anything else of the call.
template <class T, class Element, int kWorld, template <class, class, bool> class Epilogue>
class OneShotThread {
 public:
  static constexpr bool kIsSingle = kWorld != 0;
  using EpilogueHere = Epilogue<T, Element, kIsSingle>;
  using Session = device::LamportSession<T, kWorld>;
  static constexpr std::uint32_t kPacks = Fragment<Element>::kPacks;

  LAMPPOST_DEVICE OneShotThread(T& t, const OneShotArgs& args, EpilogueHere& epilogue)
      : t_(t), args_(args), epilogue_(epilogue) {
    if (t.block_rank() >= args.rows) return;
    const Row row(args, t.block_rank());
    has_first_ = t.thread_rank() < row.fragments();
    if (has_first_) begin({row, t.thread_rank()});
  }

  LAMPPOST_DEVICE void push(Session& session) {
    if (has_first_) push_fragment(session, t_.block_rank(), t_.thread_rank(), own_);
    if constexpr (!kIsSingle) push_others(session);
  }

  /// Waits for one row and sums it; every thread of the block makes every pass.
  LAMPPOST_DEVICE void sum(Session& session, const Row& row) {
    if constexpr (kIsSingle) {
      if (has_first_) sum_fragment(session, {row, t_.thread_rank()});
      epilogue_.end_pass(0);
    } else {
      sum_passes(session, row);
    }
  }

 private:
  LAMPPOST_DEVICE void push_others(Session& session) {
    for (std::uint32_t i : over_blocks(t_, args_.rows)) {
      const Row row(args_, i);
      const std::uint32_t done = i == t_.block_rank() ? t_.block_threads() : 0;
      for (std::uint32_t index = done + t_.thread_rank(); index < row.fragments();
           index += t_.block_threads()) {
        push_fragment(session, i, index, input({row, index}));
      }
    }
  }

  LAMPPOST_DEVICE void sum_passes(Session& session, const Row& row) {
    const std::uint32_t fragments = row.fragments();
    for (std::uint32_t first = 0, pass = 0; first < fragments;
         first += t_.block_threads(), ++pass) {
      const std::uint32_t index = first + t_.thread_rank();
      if (index < fragments) sum_fragment(session, {row, index});
      epilogue_.end_pass(pass);
    }
  }

  LAMPPOST_DEVICE std::uint32_t first_pack(std::uint32_t row, std::uint32_t index) const {
    return (row * fragments_in(args_.row_elements) + index) * kPacks;
  }
  /// This rank's part as it travels.
  LAMPPOST_DEVICE Fragment<Element> input(const FragmentPlace& place) {
    return without_sentinel(
        load_at<T, Element>(t_, args_, args_.in, place.first_element(), place));
  }
  LAMPPOST_DEVICE void push_fragment(Session& session, std::uint32_t row, std::uint32_t index,
                                     const Fragment<Element>& fragment) {
    for (std::uint32_t p = 0; p < kPacks; ++p) {
      session.push(first_pack(row, index) + p, fragment.pack[p]);
    }
  }

  LAMPPOST_DEVICE void begin(const FragmentPlace& place) {
    own_ = input(place);
    epilogue_.begin(place);
  }

  LAMPPOST_DEVICE void sum_fragment(Session& session, const FragmentPlace& place) {
    const std::uint32_t pack = first_pack(place.row.index, place.index);
    const bool is_first = kIsSingle || (place.row.index == t_.block_rank() &&
                                        place.index == t_.thread_rank());
    if (!is_first) begin(place);
    float sum[kFragmentElements];
    typename Session::Missing missing;
    while (!add_over_ranks<T, Element>(session, pack, own_, sum, missing)) {
      if (!session.wait(missing)) {
        for (float& value : sum) value = device::float_of(0x7fffffffu);
        break;
      }
      begin(place);  // so that nothing has to be kept through the wait
    }
    if (is_first) session.begin_headers();
    for (std::uint32_t p = 0; p < kPacks; ++p) session.release(pack + p);
    epilogue_.accept(place, without_sentinel(device::round_fragment<T, Element>(sum)));
  }

  T& t_;
  const OneShotArgs& args_;
  EpilogueHere& epilogue_;
  bool has_first_ = false;
  Fragment<Element> own_{};  // from begin() to its sum
};

/// 3. Every row of this block. After the last row's waits the block may be counted out.
template <device::Target T, class Thread>
LAMPPOST_DEVICE void sum_rows(T& t, const OneShotArgs& args, device::Call<T>& call,
                              typename Thread::Session& session, Thread& thread,
                              typename Thread::EpilogueHere& epilogue) {
  for (std::uint32_t i : over_blocks(t, args.rows)) {
    const Row row(args, i);
    const bool is_last = Thread::kIsSingle || i + t.grid_blocks() >= args.rows;
    thread.sum(session, row);
    if (is_last) {
      call.arrive_early(session.look_at_headers());
    } else if (Thread::EpilogueHere::kMeetsBetweenRows) {
      t.block_sync();
    }
    epilogue.end_row(row);
    if (Thread::kIsSingle) return;
  }
}

template <device::Target T, class Element, int kWorld, template <class, class, bool> class Epilogue>
LAMPPOST_DEVICE void one_shot_lamport(T& t, const OneShotArgs& args) {
  using Thread = OneShotThread<T, Element, kWorld, Epilogue>;
  using EpilogueHere = typename Thread::EpilogueHere;
  auto& shared = t.template shared<OneShotShared<typename EpilogueHere::Shared>>();
  EpilogueHere epilogue(t, args, shared.epilogue);
  Thread thread(t, args, epilogue);
  device::Call<T> call(t, args.call, shared.call);
  typename Thread::Session session(call);

  if (call.is_active()) {
    // 1. Push.
    call.delay_if_planted(device::Phase::kPublish);
    session.push_headers();
    thread.push(session);
  }
  call.describe();
  if (call.is_active()) {
    // 2. Clear.
    session.clear_previous();
    // 3. Sum and finish.
    call.delay_if_planted(device::Phase::kData);
    sum_rows(t, args, call, session, thread, epilogue);
    // 4. Headers.
    call.delay_if_planted(device::Phase::kHeader);
    session.wait_for_headers();
  }
  // 5. Leave.
  call.leave(session.clear_next_bytes(), [&] { epilogue.poison(); });
}

}  // namespace lamppost
