// Operations that targets share because other operations express them: fragments in plain memory,
// and the norm's summation tree.
#pragma once

#include "lamppost/device/group.hpp"
#include "lamppost/device/pack.hpp"

namespace lamppost::device {

/// The eight elements of a fragment as fp32, exact.
template <Target T, class Element>
LAMPPOST_DEVICE void widen(const Fragment<Element>& fragment, float (&values)[kFragmentElements]) {
  for (int i = 0; i < kFragmentElements; i += 2) {
    if constexpr (sizeof(Element) == 2) {
      const FloatPair pair = T::template float_pair<Element>(fragment.pack[0].word[i / 2]);
      values[i] = pair.low;
      values[i + 1] = pair.high;
    } else {
      values[i] = float_of(fragment.pack[i / 4].word[i % 4]);
      values[i + 1] = float_of(fragment.pack[i / 4].word[i % 4 + 1]);
    }
  }
}

/// The fragment of eight fp32 values, each rounded to Element.
template <Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> round_fragment(const float (&values)[kFragmentElements]) {
  Fragment<Element> fragment;
  for (int i = 0; i < kFragmentElements; i += 2) {
    if constexpr (sizeof(Element) == 2) {
      fragment.pack[0].word[i / 2] = T::template round_pair<Element>(values[i], values[i + 1]);
    } else {
      fragment.pack[i / 4].word[i % 4] = bits_of(round_to<float>(values[i]));
      fragment.pack[i / 4].word[i % 4 + 1] = bits_of(round_to<float>(values[i + 1]));
    }
  }
  return fragment;
}

/// a + b by elements, each rounded once. The same bits as their fp32 sum rounded to Element: fp32 has
/// at least twice a 16-bit type's digits and two more, so that its own rounding changes nothing (S. A.
/// Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30, 1995).
template <Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> add_fragments(const Fragment<Element>& a,
                                                const Fragment<Element>& b) {
  Fragment<Element> sum;
  for (int p = 0; p < Fragment<Element>::kPacks; ++p) {
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t x = a.pack[p].word[i];
      const std::uint32_t y = b.pack[p].word[i];
      if constexpr (sizeof(Element) == 2) {
        sum.pack[p].word[i] = T::template add_pair<Element>(x, y);
      } else {
        sum.pack[p].word[i] = bits_of(round_to<float>(float_of(x) + float_of(y)));
      }
    }
  }
  return sum;
}

/// Every -0 becomes +0, so that no word is the sentinel, which has one in its high half; NaN becomes the
/// canonical one. Nothing else changes.
template <Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> without_negative_zero(const Fragment<Element>& fragment) {
  return add_fragments<T>(fragment, Fragment<Element>{});
}

/// A fragment at a 16-byte aligned place.
template <class Element, Target T>
LAMPPOST_DEVICE Fragment<Element> load_whole_fragment(T& t, const Element* source) {
  Fragment<Element> fragment;
  for (int i = 0; i < Fragment<Element>::kPacks; ++i) {
    fragment.pack[i] = t.load_pack(reinterpret_cast<const Pack*>(source) + i);
  }
  return fragment;
}
template <class Element, Target T>
LAMPPOST_DEVICE void store_whole_fragment(T& t, Element* target, const Fragment<Element>& fragment) {
  for (int i = 0; i < Fragment<Element>::kPacks; ++i) {
    t.store_pack(reinterpret_cast<Pack*>(target) + i, fragment.pack[i]);
  }
}

/// Reads `count` (1..8) elements at `source`; the others are +0. `is_aligned`: source is 16-byte
/// aligned. The value does not depend on it.
template <class Element, Target T>
LAMPPOST_DEVICE Fragment<Element> load_fragment(T& t, const Element* source, std::uint32_t count,
                                                bool is_aligned) {
  if (is_aligned && count == kFragmentElements) return load_whole_fragment(t, source);
  Fragment<Element> fragment{};
  for (std::uint32_t i = 0; i < kFragmentElements; ++i) {  // whole, so that indices are constants
    if (i >= count) continue;
    if constexpr (sizeof(Element) == 2) {
      const std::uint32_t bits = t.load(reinterpret_cast<const std::uint16_t*>(source) + i);
      fragment.pack[0].word[i / 2] |= i % 2 == 0 ? bits : bits << 16;
    } else {
      fragment.pack[i / 4].word[i % 4] = t.load(reinterpret_cast<const std::uint32_t*>(source) + i);
    }
  }
  return fragment;
}

/// Writes the first `count` elements; nothing beyond them is touched.
template <class Element, Target T>
LAMPPOST_DEVICE void store_fragment(T& t, Element* target, const Fragment<Element>& fragment,
                                    std::uint32_t count, bool is_aligned) {
  if (is_aligned && count == kFragmentElements) {
    store_whole_fragment(t, target, fragment);
    return;
  }
  for (std::uint32_t i = 0; i < kFragmentElements; ++i) {
    if (i >= count) continue;
    if constexpr (sizeof(Element) == 2) {
      const std::uint32_t word = fragment.pack[0].word[i / 2];
      t.store(reinterpret_cast<std::uint16_t*>(target) + i,
              static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16));
    } else {
      t.store(reinterpret_cast<std::uint32_t*>(target) + i, fragment.pack[i / 4].word[i % 4]);
    }
  }
}

/// Sum of squares of eight values, in column order, by fma, from +0: a leaf of the norm's tree.
template <Target T>
LAMPPOST_DEVICE float leaf_sum_of_squares(T& t, const float (&values)[kFragmentElements]) {
  float sum = 0.0f;
  for (int i = 0; i < kFragmentElements; ++i) sum = t.fma(values[i], values[i], sum);
  return sum;
}

/// Sum over all lanes, pairwise at distance 1, 2, 4, ...: the same bits in every lane. All lanes.
template <Target T>
LAMPPOST_DEVICE float lane_tree_sum(T& t, float value) {
  for (std::uint32_t distance = 1; distance < static_cast<std::uint32_t>(T::kLanes);
       distance *= 2) {
    value += float_of(t.lane_xor(bits_of(value), distance));
  }
  return value;
}

/// Most leaves that a row can have (hidden 65,536), in groups of the narrowest warp, rounded up for
/// a last pass of the largest block.
inline constexpr std::uint32_t kMaxLeafGroups = (65536 / kFragmentElements + 1024) / 32;

/// The norm's tree over one row, for a block. Leaf i is summed in by the thread that calls
/// add(i, value) in pass i / block_threads; lanes combine first, then groups of kLanes leaves through
/// shared memory. Adding +0 changes no sum of squares, so padding to a power of two, lane count
/// and block shape do not change a bit. Two buffers by turns: one block_sync() a row.
struct LeafGroups {
  float group[2][kMaxLeafGroups];
};

template <Target T>
LAMPPOST_DEVICE void add_leaves(T& t, LeafGroups& shared, std::uint32_t turn, std::uint32_t pass,
                                float leaf) {
  const float sum = lane_tree_sum(t, leaf);
  const std::uint32_t groups_a_pass = t.block_threads() / T::kLanes;
  if (t.lane_rank() == 0) {
    shared.group[turn][pass * groups_a_pass + t.thread_rank() / T::kLanes] = sum;
  }
}

/// The sum over groups 0 .. group_count-1 in tree order, of which there are kLanes at most; call after
/// a block_sync(). All lanes.
template <Target T>
LAMPPOST_DEVICE float sum_of_a_warps_groups(T& t, const LeafGroups& shared, std::uint32_t turn,
                                            std::uint32_t group_count) {
  const std::uint32_t lane = t.lane_rank();
  return lane_tree_sum(t, lane < group_count ? shared.group[turn][lane] : 0.0f);
}

/// The same for any number of groups.
template <Target T>
LAMPPOST_DEVICE float sum_of_groups(T& t, const LeafGroups& shared, std::uint32_t turn,
                                    std::uint32_t group_count) {
  if (group_count <= static_cast<std::uint32_t>(T::kLanes)) {
    return sum_of_a_warps_groups(t, shared, turn, group_count);
  }
  constexpr std::uint32_t kMostParts = 16;  // a power of two that holds kMaxLeafGroups / 32
  static_assert(kMostParts * 32 >= kMaxLeafGroups);
  float part[kMostParts] = {};
  const std::uint32_t part_count = (group_count + T::kLanes - 1) / T::kLanes;
  for (std::uint32_t p = 0; p < part_count; ++p) {
    const std::uint32_t index = p * T::kLanes + t.lane_rank();
    part[p] = lane_tree_sum(t, index < group_count ? shared.group[turn][index] : 0.0f);
  }
  for (std::uint32_t distance = 1; distance < kMostParts; distance *= 2) {
    for (std::uint32_t p = 0; p < kMostParts; p += 2 * distance) part[p] += part[p + distance];
  }
  return part[0];
}

}  // namespace lamppost::device
