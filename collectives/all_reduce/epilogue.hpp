// What follows the sum of an all-reduce, as types that a kernel is compiled with. A kernel gives the
// epilogue each summed fragment once, then ends the pass and the row with all threads of the block;
// after a failed call it asks for poison. Outputs never hold the sentinel word (device/pack.hpp), so
// that an algorithm which sends them on gives the same bits.
#pragma once

#include "collectives/all_reduce/args.hpp"
#include "lamppost/device/generic.hpp"

namespace lamppost {

using device::Fragment;
using device::kFragmentElements;

/// Where a fragment lies in the call's tensors.
struct FragmentPlace {
  std::uint64_t row;
  std::uint32_t index;  // within the row
};

template <class Element>
LAMPPOST_DEVICE std::uint64_t first_element(const OneShotArgs& args, const FragmentPlace& place) {
  return place.row * args.row_elements + place.index * kFragmentElements;
}
/// Elements of row `row`: row_elements, less in a short last row.
LAMPPOST_DEVICE std::uint32_t elements_in_row(const OneShotArgs& args, std::uint64_t row) {
  const std::uint64_t left = args.element_count - row * args.row_elements;
  return left < args.row_elements ? static_cast<std::uint32_t>(left) : args.row_elements;
}
LAMPPOST_DEVICE std::uint32_t fragments_in(std::uint32_t elements) {
  return (elements + kFragmentElements - 1) / kFragmentElements;
}

/// Reads and writes one tensor of the call by fragments.
template <device::Target T, class Element>
LAMPPOST_DEVICE Fragment<Element> load_at(T& t, const OneShotArgs& args, const void* tensor,
                                          const FragmentPlace& place) {
  return device::load_fragment(
      t, static_cast<const Element*>(tensor) + first_element<Element>(args, place),
      device::fragment_elements(elements_in_row(args, place.row), place.index),
      args.is_aligned != 0);
}
template <device::Target T, class Element>
LAMPPOST_DEVICE void store_at(T& t, const OneShotArgs& args, void* tensor,
                              const FragmentPlace& place, const Fragment<Element>& fragment) {
  device::store_fragment(
      t, static_cast<Element*>(tensor) + first_element<Element>(args, place), fragment,
      device::fragment_elements(elements_in_row(args, place.row), place.index),
      args.is_aligned != 0);
}

/// Fills a tensor with NaN, by the threads of this block. Null: nothing.
template <class Element, device::Target T>
LAMPPOST_DEVICE void poison_tensor(T& t, const OneShotArgs& args, void* tensor) {
  if (tensor == nullptr) return;
  float nan[kFragmentElements];
  for (float& value : nan) value = device::float_of(0x7fffffffu);
  const auto poison = device::round_fragment<Element>(nan);
  for (std::uint64_t row = 0; row < args.rows; ++row) {
    const std::uint32_t count = fragments_in(elements_in_row(args, row));
    for (std::uint64_t i : device::over_block_threads(t, count)) {
      store_at(t, args, tensor, {row, static_cast<std::uint32_t>(i)}, poison);
    }
  }
}

/// The sum itself is the result.
template <class T, class Element>
class NoEpilogue {
 public:
  struct Shared {};

  LAMPPOST_DEVICE NoEpilogue(T& t, const OneShotArgs& args, Shared&) : t_(t), args_(args) {}

  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    store_at(t_, args_, args_.out, place, sum);
  }
  LAMPPOST_DEVICE void end_pass(std::uint32_t) {}
  LAMPPOST_DEVICE void end_row(std::uint64_t) {}
  LAMPPOST_DEVICE void poison() { poison_tensor<Element>(t_, args_, args_.out); }

 private:
  T& t_;
  const OneShotArgs& args_;
};

/// Residual add and RMSNorm (arithmetic: lamppost.h, lpAllReduceRMSNormArgs). The row waits in `out`,
/// rounded, between the two passes over it; each thread reads back only what it wrote.
template <class T, class Element>
class RmsNormEpilogue {
 public:
  using Shared = device::LeafGroups;

  LAMPPOST_DEVICE RmsNormEpilogue(T& t, const OneShotArgs& args, Shared& shared)
      : t_(t), args_(args), shared_(shared) {}

  LAMPPOST_DEVICE void accept(const FragmentPlace& place, const Fragment<Element>& sum) {
    const RmsNormArgs& norm = args_.norm;
    if (norm.all_reduce_out != nullptr) store_at(t_, args_, norm.all_reduce_out, place, sum);
    Fragment<Element> row_part = sum;
    float values[kFragmentElements];
    for (int i = 0; i < kFragmentElements; ++i) values[i] = device::to_float(element_of(sum, i));
    if (norm.residual_in != nullptr) {
      const auto residual = load_at<T, Element>(t_, args_, norm.residual_in, place);
      for (int i = 0; i < kFragmentElements; ++i) values[i] += device::to_float(element_of(residual, i));
      row_part = without_sentinel(device::round_fragment<Element>(values));
      for (int i = 0; i < kFragmentElements; ++i) values[i] = device::to_float(element_of(row_part, i));
    }
    if (norm.residual_out != nullptr) store_at(t_, args_, norm.residual_out, place, row_part);
    store_at(t_, args_, args_.out, place, row_part);
    leaf_ = leaf_sum_of_squares(t_, values);
  }

  LAMPPOST_DEVICE void end_pass(std::uint32_t pass) {
    add_leaves(t_, shared_, turn_, pass, leaf_);
    leaf_ = 0.0f;
  }

  LAMPPOST_DEVICE void end_row(std::uint64_t row) {
    t_.block_sync();
    const std::uint32_t fragments = fragments_in(args_.row_elements);
    const float squares =
        sum_of_groups(t_, shared_, turn_, (fragments + T::kLanes - 1) / T::kLanes);
    const float scale =
        t_.rsqrt_approximate(squares * args_.norm.inverse_columns + args_.norm.epsilon);
    for (std::uint64_t i : device::over_block_threads(t_, fragments)) {
      scale_fragment({row, static_cast<std::uint32_t>(i)}, scale);
    }
    turn_ ^= 1u;
  }

  LAMPPOST_DEVICE void poison() {
    poison_tensor<Element>(t_, args_, args_.norm.all_reduce_out);
    poison_tensor<Element>(t_, args_, args_.norm.residual_out);
    poison_tensor<Element>(t_, args_, args_.out);
  }

 private:
  LAMPPOST_DEVICE void scale_fragment(const FragmentPlace& place, float scale) {
    const auto row_part = load_at<T, Element>(t_, args_, args_.out, place);
    const FragmentPlace weight_place{0, place.index};
    float weight[kFragmentElements];
    if (args_.norm.weight_is_fp32 != 0) {
      load_weight<float>(weight, weight_place);
    } else {
      load_weight<Element>(weight, weight_place);
    }
    float values[kFragmentElements];
    for (int i = 0; i < kFragmentElements; ++i) {
      const float scaled = device::to_float(element_of(row_part, i)) * scale;
      values[i] = scaled * (args_.norm.weight_bias + weight[i]);
    }
    store_at(t_, args_, args_.out, place,
             without_sentinel(device::round_fragment<Element>(values)));
  }

  template <class Weight>
  LAMPPOST_DEVICE void load_weight(float (&weight)[kFragmentElements],
                                   const FragmentPlace& place) {
    const auto fragment = load_at<T, Weight>(t_, args_, args_.norm.weight, place);
    for (int i = 0; i < kFragmentElements; ++i) weight[i] = device::to_float(element_of(fragment, i));
  }

  T& t_;
  const OneShotArgs& args_;
  Shared& shared_;
  std::uint32_t turn_ = 0;
  float leaf_ = 0.0f;
};

}  // namespace lamppost
