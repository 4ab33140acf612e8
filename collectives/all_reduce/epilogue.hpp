// What follows the sum of an all-reduce, as types that a kernel is compiled with. A kernel tells the
// epilogue of a fragment before it waits for it (begin: loads; prepare: what can be computed of them;
// both again after a long wait), gives it each summed fragment once (accept), then ends the pass and
// the row with all threads of the block; after a failed call it asks for poison.
// Outputs hold no -0, hence no sentinel word (device/pack.hpp), so an algorithm which sends them on gives
// the same bits. Sums are none (sum_over_ranks), nor is a sum with something added to it, likewise.
//
// kIsSingle: a block has one row at most, and a thread one fragment of it, of a whole call
// (KernelInfo::is_single).
#pragma once

#include "collectives/all_reduce/args.hpp"
#include "lamppost/device/generic.hpp"

namespace lamppost {

using device::Fragment;
using device::kFragmentElements;

LAMPPOST_DEVICE std::uint32_t fragments_in(std::uint32_t elements) {
  return (elements + kFragmentElements - 1) / kFragmentElements;
}

/// Elements of a row: row_elements, less in a short last row.
LAMPPOST_DEVICE std::uint32_t elements_of_row(const OneShotArgs& args, std::uint32_t row) {
  const std::uint32_t left = args.element_count - row * args.row_elements;
  return left < args.row_elements ? left : args.row_elements;
}
LAMPPOST_DEVICE std::uint32_t fragments_of_row(const OneShotArgs& args, std::uint32_t row) {
  return fragments_in(elements_of_row(args, row));
}

/// Where a fragment lies.
struct FragmentPlace {
  std::uint32_t row;
  std::uint32_t index;     // within the row
  std::uint32_t fragment;  // within the call, on the wire; in the tensors too if the call is whole

  LAMPPOST_DEVICE FragmentPlace(const OneShotArgs& args, std::uint32_t row, std::uint32_t index)
      : row(row), index(index), fragment(row * args.row_fragments + index) {}

  /// In the tensors.
  LAMPPOST_DEVICE std::uint32_t first_element(const OneShotArgs& args) const {
    return row * args.row_elements + index * kFragmentElements;
  }
  LAMPPOST_DEVICE std::uint32_t elements(const OneShotArgs& args) const {  // 1 to 8
    const std::uint32_t left = elements_of_row(args, row) - index * kFragmentElements;
    return left < kFragmentElements ? left : kFragmentElements;
  }
};

/// Reads and writes one tensor of the call by fragments. kIsWhole: the call is known to be.
template <bool kIsWhole, device::Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> load_at(T& t, const OneShotArgs& args, const void* tensor,
                                          const FragmentPlace& place) {
  const auto* elements = static_cast<const Element*>(tensor);
  if (kIsWhole || args.is_whole != 0) {
    return device::load_whole_fragment(
        t, elements + std::uint64_t{place.fragment} * kFragmentElements);
  }
  return device::load_fragment(t, elements + place.first_element(args), place.elements(args),
                               args.is_aligned != 0);
}
template <bool kIsWhole, device::Target T, class Element>
LAMPPOST_DEVICE void store_at(T& t, const OneShotArgs& args, void* tensor,
                              const FragmentPlace& place, const Fragment<Element>& fragment) {
  auto* elements = static_cast<Element*>(tensor);
  if (kIsWhole || args.is_whole != 0) {
    device::store_whole_fragment(
        t, elements + std::uint64_t{place.fragment} * kFragmentElements, fragment);
  } else {
    device::store_fragment(t, elements + place.first_element(args), fragment,
                           place.elements(args), args.is_aligned != 0);
  }
}

template <class T, class Element>
LAMPPOST_DEVICE Fragment<Element> nan_fragment() {
  float nan[kFragmentElements];
  for (float& value : nan) value = device::float_of(0x7fffffffu);
  return device::round_fragment<T, Element>(nan);
}

/// Fills a tensor with NaN, by the threads of this block. Null: nothing.
template <bool kIsWhole, class Element, device::Target T>
LAMPPOST_DEVICE void poison_tensor(T& t, const OneShotArgs& args, void* tensor) {
  if (tensor == nullptr) return;
  const auto poison = nan_fragment<T, Element>();
  LAMPPOST_NO_UNROLL for (std::uint32_t row = 0; row < args.rows; ++row) {
    const std::uint32_t fragments = fragments_of_row(args, row);
    LAMPPOST_NO_UNROLL for (std::uint32_t i : device::over_block_threads(t, fragments)) {
      store_at<kIsWhole>(t, args, tensor, FragmentPlace(args, row, i), poison);
    }
  }
}

/// The sum itself is the result.
template <class T, class Element, bool kIsSingle>
class NoEpilogue {
 public:
  struct Shared {};
  /// Whether the threads of a block must meet between two rows.
  static constexpr bool kMeetsBetweenRows = false;

  LAMPPOST_DEVICE NoEpilogue(T& t, const OneShotArgs& args, Shared&) : t_(t), args_(args) {}

  LAMPPOST_DEVICE void begin(const FragmentPlace&) {}
  LAMPPOST_DEVICE void prepare(const FragmentPlace&) {}
  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    store_at<kIsSingle>(t_, args_, args_.out, place, sum);
  }
  LAMPPOST_DEVICE void end_pass(std::uint32_t) {}
  LAMPPOST_DEVICE void end_row(std::uint32_t) {}
  LAMPPOST_DEVICE void poison() { poison_tensor<kIsSingle, Element>(t_, args_, args_.out); }

 private:
  T& t_;
  const OneShotArgs& args_;
};

/// Residual add and RMSNorm (arithmetic: lamppost.h, lpAllReduceRMSNormArgs). Where a thread has one
/// fragment of a row, its part of the row waits in registers between the two passes over it; else in
/// `out`, rounded, where each thread reads back only what it wrote.
template <class T, class Element, bool kIsSingle>
class RmsNormEpilogue {
 public:
  using Shared = device::LeafGroups;
  static constexpr bool kMeetsBetweenRows = true;

  LAMPPOST_DEVICE RmsNormEpilogue(T& t, const OneShotArgs& args, Shared& shared)
      : t_(t), args_(args), shared_(shared) {}

  /// Issues the loads that accept() and end_row() need; the sum is still to come.
  LAMPPOST_DEVICE void begin(const FragmentPlace& place) {
    if (args_.norm.residual_in != nullptr) residual_ = load<Element>(args_.norm.residual_in, place);
    if (is_single_pass()) begin_weight(place);
  }
  LAMPPOST_DEVICE void prepare(const FragmentPlace& place) {
    if (is_single_pass()) widen_weight(place);
  }

  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    const RmsNormArgs& norm = args_.norm;
    if (norm.all_reduce_out != nullptr) store(norm.all_reduce_out, place, sum);
    row_part_ = norm.residual_in != nullptr ? device::add_fragments<T>(sum, residual_) : sum;
    if (norm.residual_out != nullptr) store(norm.residual_out, place, row_part_);
    if (!is_single_pass()) store(args_.out, place, row_part_);
    float values[kFragmentElements];
    device::widen<T>(row_part_, values);
    leaf_ = leaf_sum_of_squares(t_, values);
  }

  LAMPPOST_DEVICE void end_pass(std::uint32_t pass) {
    add_leaves(t_, shared_, turn_, pass, leaf_);
    leaf_ = 0.0f;
  }

  /// After the threads of the block have met.
  LAMPPOST_DEVICE void end_row(std::uint32_t row) {
    const float scale =
        t_.rsqrt_approximate(sum_of_squares() * args_.norm.inverse_columns + args_.norm.epsilon);
    turn_ ^= 1u;
    if (is_single_pass()) {
      const FragmentPlace place(args_, row, t_.thread_rank());
      if (place.index < args_.row_fragments && place.fragment < args_.fragments) {
        scale_fragment(place, scale);
      }
      return;
    }
    for (std::uint32_t i : device::over_block_threads(t_, args_.row_fragments)) {
      const FragmentPlace place(args_, row, i);
      row_part_ = load<Element>(args_.out, place);
      begin_weight(place);
      widen_weight(place);
      scale_fragment(place, scale);
    }
  }

  LAMPPOST_DEVICE void poison() {
    poison_tensor<kIsSingle, Element>(t_, args_, args_.norm.all_reduce_out);
    poison_tensor<kIsSingle, Element>(t_, args_, args_.norm.residual_out);
    poison_tensor<kIsSingle, Element>(t_, args_, args_.out);
  }

 private:
  LAMPPOST_DEVICE bool is_single_pass() const {
    return kIsSingle || args_.row_fragments <= t_.block_threads();
  }

  template <class E>
  LAMPPOST_DEVICE Fragment<E> load(const void* tensor, const FragmentPlace& place) {
    return load_at<kIsSingle, T, E>(t_, args_, tensor, place);
  }
  LAMPPOST_DEVICE void store(void* tensor, const FragmentPlace& place,
                             const Fragment<Element>& fragment) {
    store_at<kIsSingle>(t_, args_, tensor, place, fragment);
  }

  LAMPPOST_DEVICE float sum_of_squares() {
    if constexpr (kIsSingle) {  // a warp without fragments has written +0
      return device::sum_of_a_warps_groups(t_, shared_, turn_, t_.block_threads() / T::kLanes);
    }
    const std::uint32_t groups = (args_.row_fragments + T::kLanes - 1) / T::kLanes;
    return device::sum_of_groups(t_, shared_, turn_, groups);
  }

  /// The weight is one row.
  LAMPPOST_DEVICE FragmentPlace in_weight(const FragmentPlace& place) const {
    return FragmentPlace(args_, 0, place.index);
  }
  LAMPPOST_DEVICE void begin_weight(const FragmentPlace& place) {
    if (args_.norm.weight_is_fp32 == 0) {
      weight_ = load<Element>(args_.norm.weight, in_weight(place));
    }
  }
  LAMPPOST_DEVICE void widen_weight(const FragmentPlace& place) {
    if (args_.norm.weight_is_fp32 != 0) {
      device::widen<T>(load<float>(args_.norm.weight, in_weight(place)), factor_);
    } else {
      device::widen<T>(weight_, factor_);
    }
    for (float& factor : factor_) factor += args_.norm.weight_bias;
  }

  /// Writes row_part_, normalised, to `out`.
  LAMPPOST_DEVICE void scale_fragment(const FragmentPlace& place, float scale) {
    float values[kFragmentElements];
    device::widen<T>(row_part_, values);
    for (int i = 0; i < kFragmentElements; ++i) values[i] = values[i] * scale * factor_[i];
    store(args_.out, place,
          device::without_negative_zero<T>(device::round_fragment<T, Element>(values)));
  }

  T& t_;
  const OneShotArgs& args_;
  Shared& shared_;
  std::uint32_t turn_ = 0;
  float leaf_ = 0.0f;
  Fragment<Element> residual_;        // if there is one
  Fragment<Element> row_part_;
  Fragment<Element> weight_;          // as loaded, unless weights are fp32
  float factor_[kFragmentElements];   // bias + weight
};

}  // namespace lamppost
