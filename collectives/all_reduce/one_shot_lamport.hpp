// One-shot Lamport all-reduce, with an epilogue type for what follows the sum.
//
// shape    A row is one tensor row (fused) or a block's worth of elements (plain). Blocks take rows by
//          turns; a thread takes 8-element fragments of the row. Any grid, any block of whole warps.
// memory   Rank r's fragment f of row w lies, in every peer, at pack (w * fragments + f) * packs a
//          fragment of rank r's part of this call's generation (device/lamport.hpp has the picture).
// steps    1. Push every fragment of this rank's input, rounded as it is and free of sentinels, to
//             every peer; block 0 also sends headers.
//          2. Clear what the previous call wrote into its own generation.
//          3. Per fragment: poll the peers' packs, add all ranks in rank order from +0, round once,
//             give it to the epilogue. The own value never travels; it is encoded the same way.
//          4. Block 0 waits for every header.
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

/// This rank's input fragment as it travels.
template <class Element, device::Target T>
LAMPPOST_DEVICE Fragment<Element> encoded_input(T& t, const OneShotArgs& args,
                                                const FragmentPlace& place) {
  return without_sentinel(load_at<T, Element>(t, args, args.in, place));
}

/// Adds one fragment of all ranks, in rank order from +0. False: something has not come yet.
template <class T, class Element, class Session>
LAMPPOST_DEVICE bool add_over_ranks(Session& session, std::uint64_t first_pack,
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
template <class T, class Element, int kWorld, template <class, class> class Epilogue>
class OneShotThread {
 public:
  using EpilogueHere = Epilogue<T, Element>;
  using Session = device::LamportSession<T, kWorld>;
  static constexpr std::uint64_t kPacks = Fragment<Element>::kPacks;

  LAMPPOST_DEVICE OneShotThread(T& t, const OneShotArgs& args, EpilogueHere& epilogue)
      : t_(t), args_(args), epilogue_(epilogue) {
    begin({t.block_rank(), t.thread_rank()});
  }

  LAMPPOST_DEVICE void push(Session& session) {
    for (std::uint64_t row : over_blocks(t_, args_.rows)) {
      const std::uint32_t fragments = fragments_in(elements_in_row(args_, row));
      for (std::uint64_t i : over_block_threads(t_, fragments)) {
        const FragmentPlace place{row, static_cast<std::uint32_t>(i)};
        const auto fragment = is_first(place) ? own_ : encoded_input<Element>(t_, args_, place);
        for (std::uint64_t p = 0; p < kPacks; ++p) {
          session.push(first_pack(place) + p, fragment.pack[p]);
        }
      }
    }
  }

  /// Row by row; every thread of the block makes every pass.
  LAMPPOST_DEVICE void sum(Session& session) {
    for (std::uint64_t row : over_blocks(t_, args_.rows)) {
      const std::uint32_t fragments = fragments_in(elements_in_row(args_, row));
      for (std::uint32_t first = 0, pass = 0; first < fragments;
           first += t_.block_threads(), ++pass) {
        const FragmentPlace place{row, first + t_.thread_rank()};
        if (place.index < fragments) sum_fragment(session, place);
        epilogue_.end_pass(pass);
      }
      if (row == t_.block_rank()) session.begin_headers();
      epilogue_.end_row(row);
    }
  }

 private:
  LAMPPOST_DEVICE bool is_first(const FragmentPlace& place) const {
    return place.row == t_.block_rank() && place.index == t_.thread_rank();
  }
  LAMPPOST_DEVICE std::uint64_t first_pack(const FragmentPlace& place) const {
    return (place.row * fragments_in(args_.row_elements) + place.index) * kPacks;
  }

  LAMPPOST_DEVICE void begin(const FragmentPlace& place) {
    if (place.row >= args_.rows || place.index >= fragments_in(elements_in_row(args_, place.row))) {
      return;
    }
    own_ = encoded_input<Element>(t_, args_, place);
    epilogue_.begin(place);
  }

  LAMPPOST_DEVICE void sum_fragment(Session& session, const FragmentPlace& place) {
    if (!is_first(place)) begin(place);
    float sum[kFragmentElements];
    typename Session::Missing missing;
    while (!add_over_ranks<T, Element>(session, first_pack(place), own_, sum, missing)) {
      if (!session.wait(missing)) {
        for (float& value : sum) value = device::float_of(0x7fffffffu);
        break;
      }
      begin(place);  // so that nothing has to be kept through the wait
    }
    for (std::uint64_t p = 0; p < kPacks; ++p) session.release(first_pack(place) + p);
    epilogue_.accept(place, without_sentinel(device::round_fragment<T, Element>(sum)));
  }

  T& t_;
  const OneShotArgs& args_;
  EpilogueHere& epilogue_;
  Fragment<Element> own_{};
};

template <device::Target T, class Element, int kWorld, template <class, class> class Epilogue>
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
    // 2. Clear.
    session.clear_previous();
    // 3. Sum and finish.
    call.delay_if_planted(device::Phase::kData);
    thread.sum(session);
    // 4. Headers.
    call.delay_if_planted(device::Phase::kHeader);
    session.wait_for_headers();
  }
  // 5. Leave.
  call.leave(session.clear_next_bytes(), [&] { epilogue.poison(); });
}

}  // namespace lamppost
