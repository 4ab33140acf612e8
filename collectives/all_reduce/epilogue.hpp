// What follows the sum of an all-reduce, as types that a kernel is compiled with. A kernel tells the
// epilogue of a fragment before it waits for it (begin; again after a long wait), gives it each summed
// fragment once (accept), then ends the pass and the row with all threads of the block;
// after a failed call it asks for poison. Outputs never hold the sentinel word (device/pack.hpp), so
// an algorithm which sends them on gives the same bits.
//
// kIsSingle: a block has one row at most, and a thread one fragment of it (KernelInfo::is_single).
#pragma once

#include "collectives/all_reduce/args.hpp"
#include "lamppost/device/generic.hpp"

namespace lamppost {

using device::Fragment;
using device::kFragmentElements;

LAMPPOST_DEVICE std::uint32_t fragments_in(std::uint32_t elements) {
  return (elements + kFragmentElements - 1) / kFragmentElements;
}

/// A row of the call: the same for all threads of a block.
struct Row {
  std::uint32_t index;
  std::uint32_t first_element;  // in the tensors
  std::uint32_t elements;       // row_elements, less in a short last row

  LAMPPOST_DEVICE Row(const OneShotArgs& args, std::uint32_t row)
      : index(row), first_element(row * args.row_elements), elements(args.row_elements) {
    const std::uint32_t left = args.element_count - first_element;
    if (left < elements) elements = left;
  }
  LAMPPOST_DEVICE std::uint32_t fragments() const { return fragments_in(elements); }
};

/// Where a fragment lies.
struct FragmentPlace {
  Row row;
  std::uint32_t index;  // within the row

  LAMPPOST_DEVICE std::uint32_t first_element() const {
    return row.first_element + index * kFragmentElements;
  }
  LAMPPOST_DEVICE std::uint32_t elements() const {  // 1 to 8
    const std::uint32_t left = row.elements - index * kFragmentElements;
    return left < kFragmentElements ? left : kFragmentElements;
  }
};

/// Reads and writes one tensor of the call by fragments; `first_element` is the fragment's in it.
template <device::Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> load_at(T& t, const OneShotArgs& args, const void* tensor,
                                          std::uint32_t first_element, const FragmentPlace& place) {
  const auto* source = static_cast<const Element*>(tensor) + first_element;
  if (args.is_whole != 0) return device::load_whole_fragment(t, source);
  return device::load_fragment(t, source, place.elements(), args.is_aligned != 0);
}
template <device::Target T, class Element>
LAMPPOST_DEVICE void store_at(T& t, const OneShotArgs& args, void* tensor,
                              const FragmentPlace& place, const Fragment<Element>& fragment) {
  auto* target = static_cast<Element*>(tensor) + place.first_element();
  if (args.is_whole != 0) {
    device::store_whole_fragment(t, target, fragment);
  } else {
    device::store_fragment(t, target, fragment, place.elements(), args.is_aligned != 0);
  }
}

/// Fills a tensor with NaN, by the threads of this block. Null: nothing.
template <class Element, device::Target T>
LAMPPOST_DEVICE void poison_tensor(T& t, const OneShotArgs& args, void* tensor) {
  if (tensor == nullptr) return;
  float nan[kFragmentElements];
  for (float& value : nan) value = device::float_of(0x7fffffffu);
  const auto poison = device::round_fragment<T, Element>(nan);
  LAMPPOST_NO_UNROLL for (std::uint32_t i = 0; i < args.rows; ++i) {
    const Row row(args, i);
    LAMPPOST_NO_UNROLL for (std::uint32_t fragment : device::over_block_threads(t, row.fragments())) {
      store_at(t, args, tensor, FragmentPlace{row, fragment}, poison);
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
  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    store_at(t_, args_, args_.out, place, sum);
  }
  LAMPPOST_DEVICE void end_pass(std::uint32_t) {}
  LAMPPOST_DEVICE void end_row(const Row&) {}
  LAMPPOST_DEVICE void poison() { poison_tensor<Element>(t_, args_, args_.out); }

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
    if (args_.norm.residual_in != nullptr) {
      residual_ = load_at<T, Element>(t_, args_, args_.norm.residual_in, place.first_element(), place);
    }
    if (is_single_pass()) begin_weight(place);
  }

  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    const RmsNormArgs& norm = args_.norm;
    if (norm.all_reduce_out != nullptr) store_at(t_, args_, norm.all_reduce_out, place, sum);
    row_part_ = sum;
    float values[kFragmentElements];
    device::widen<T>(sum, values);
    if (norm.residual_in != nullptr) {
      float residual[kFragmentElements];
      device::widen<T>(residual_, residual);
      for (int i = 0; i < kFragmentElements; ++i) values[i] += residual[i];
      row_part_ = without_sentinel(device::round_fragment<T, Element>(values));
      device::widen<T>(row_part_, values);
    }
    if (norm.residual_out != nullptr) store_at(t_, args_, norm.residual_out, place, row_part_);
    if (!is_single_pass()) store_at(t_, args_, args_.out, place, row_part_);
    leaf_ = leaf_sum_of_squares(t_, values);
  }

  LAMPPOST_DEVICE void end_pass(std::uint32_t pass) {
    add_leaves(t_, shared_, turn_, pass, leaf_);
    leaf_ = 0.0f;
  }

  /// After the threads of the block have met.
  LAMPPOST_DEVICE void end_row(const Row& row) {
    const std::uint32_t fragments = row.fragments();
    const std::uint32_t groups = (fragments + T::kLanes - 1) / T::kLanes;
    const float squares = kIsSingle ? device::sum_of_a_warps_groups(t_, shared_, turn_, groups)
                                    : device::sum_of_groups(t_, shared_, turn_, groups);
    const float scale =
        t_.rsqrt_approximate(squares * args_.norm.inverse_columns + args_.norm.epsilon);
    turn_ ^= 1u;
    if (is_single_pass()) {
      if (t_.thread_rank() < fragments) {
        scale_fragment({row, t_.thread_rank()}, scale);
      }
      return;
    }
    for (std::uint32_t i : device::over_block_threads(t_, fragments)) {
      const FragmentPlace place{row, i};
      row_part_ = load_at<T, Element>(t_, args_, args_.out, place.first_element(), place);
      begin_weight(place);
      scale_fragment(place, scale);
    }
  }

  LAMPPOST_DEVICE void poison() {
    poison_tensor<Element>(t_, args_, args_.norm.all_reduce_out);
    poison_tensor<Element>(t_, args_, args_.norm.residual_out);
    poison_tensor<Element>(t_, args_, args_.out);
  }

 private:
  LAMPPOST_DEVICE bool is_single_pass() const {
    return kIsSingle || fragments_in(args_.row_elements) <= t_.block_threads();
  }

  LAMPPOST_DEVICE void begin_weight(const FragmentPlace& place) {
    if (args_.norm.weight_is_fp32 == 0) weight_ = load_weight<Element>(place);
  }

  template <class Weight>
  LAMPPOST_DEVICE Fragment<Weight> load_weight(const FragmentPlace& place) {
    return load_at<T, Weight>(t_, args_, args_.norm.weight, place.index * kFragmentElements, place);
  }

  /// Writes row_part_, normalised, to `out`.
  LAMPPOST_DEVICE void scale_fragment(const FragmentPlace& place, float scale) {
    if (args_.norm.weight_is_fp32 != 0) {
      write_scaled(place, scale, load_weight<float>(place));
    } else {
      write_scaled(place, scale, weight_);
    }
  }

  template <class Weight>
  LAMPPOST_DEVICE void write_scaled(const FragmentPlace& place, float scale,
                                    const Fragment<Weight>& weight) {
    float values[kFragmentElements];
    float weights[kFragmentElements];
    device::widen<T>(row_part_, values);
    device::widen<T>(weight, weights);
    for (int i = 0; i < kFragmentElements; ++i) {
      values[i] = values[i] * scale * (args_.norm.weight_bias + weights[i]);
    }
    store_at(t_, args_, args_.out, place,
             without_sentinel(device::round_fragment<T, Element>(values)));
  }

  T& t_;
  const OneShotArgs& args_;
  Shared& shared_;
  std::uint32_t turn_ = 0;
  float leaf_ = 0.0f;
  Fragment<Element> residual_{};
  Fragment<Element> row_part_{};
  Fragment<Element> weight_{};  // unless weights are fp32
};

}  // namespace lamppost
