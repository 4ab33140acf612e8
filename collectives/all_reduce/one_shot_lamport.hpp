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

/// Sum over ranks of one fragment, rounded once; NaN if the call has failed.
template <class Element, class Session>
LAMPPOST_DEVICE Fragment<Element> sum_over_ranks(Session& session, std::uint64_t first_pack,
                                                 const Fragment<Element>& own) {
  constexpr int kElementsPerPack = kFragmentElements / Fragment<Element>::kPacks;
  float sum[kFragmentElements] = {};
  bool is_good = true;
  for (int p = 0; p < Fragment<Element>::kPacks; ++p) {
    for (std::uint32_t rank = 0; rank < session.rank_count(); rank += Session::kBatch) {
      is_good &= session.receive(first_pack + p, rank, own.pack[p], [&](const device::Pack& pack) {
        Fragment<Element> part;
        part.pack[p] = pack;
        for (int i = p * kElementsPerPack; i < (p + 1) * kElementsPerPack; ++i) {
          sum[i] += device::to_float(element_of(part, i));
        }
      });
    }
  }
  if (!is_good) {
    for (float& value : sum) value = device::float_of(0x7fffffffu);
  }
  return without_sentinel(device::round_fragment<Element>(sum));
}

template <device::Target T, class Element, int kWorld, template <class, class> class Epilogue>
LAMPPOST_DEVICE void one_shot_lamport(T& t, const OneShotArgs& args) {
  using EpilogueHere = Epilogue<T, Element>;
  auto& shared = t.template shared<OneShotShared<typename EpilogueHere::Shared>>();
  device::Call<T> call(t, args.call, shared.call);
  device::LamportSession<T, kWorld> session(call);
  EpilogueHere epilogue(t, args, shared.epilogue);

  if (call.is_active()) {
    constexpr std::uint64_t kPacks = Fragment<Element>::kPacks;
    const std::uint64_t fragments_a_row = fragments_in(args.row_elements);
    // 1. Push.
    call.delay_if_planted(device::Phase::kPublish);
    session.push_headers();
    for (std::uint64_t row : over_blocks(t, args.rows)) {
      for (std::uint64_t i : over_block_threads(t, fragments_in(elements_in_row(args, row)))) {
        const auto fragment =
            encoded_input<Element>(t, args, {row, static_cast<std::uint32_t>(i)});
        for (std::uint64_t p = 0; p < kPacks; ++p) {
          session.push((row * fragments_a_row + i) * kPacks + p, fragment.pack[p]);
        }
      }
    }
    // 2. Clear.
    session.clear_previous();
    // 3. Sum and finish, row by row; every thread of the block makes every pass.
    call.delay_if_planted(device::Phase::kData);
    for (std::uint64_t row : over_blocks(t, args.rows)) {
      const std::uint32_t fragments = fragments_in(elements_in_row(args, row));
      for (std::uint32_t first = 0, pass = 0; first < fragments;
           first += t.block_threads(), ++pass) {
        const FragmentPlace place{row, first + t.thread_rank()};
        if (place.index < fragments) {
          const std::uint64_t pack = (row * fragments_a_row + place.index) * kPacks;
          const auto own = encoded_input<Element>(t, args, place);
          epilogue.accept(place, sum_over_ranks(session, pack, own));
        }
        epilogue.end_pass(pass);
      }
      epilogue.end_row(row);
    }
    // 4. Headers.
    call.delay_if_planted(device::Phase::kHeader);
    session.wait_for_headers();
  }
  // 5. Leave.
  call.leave(session.clear_next_bytes(), [&] { epilogue.poison(); });
}

}  // namespace lamppost
