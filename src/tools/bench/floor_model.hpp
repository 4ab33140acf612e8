// The least time that a row could take on a machine, from what probes measured of it. Pure.
//
//   floor = launch + one message + bytes over one link / the link's rate
//
// A call is one launch; every rank must hear of every other, which takes one message at least; and
// one-shot pushes all bytes to each of the other ranks, over a link each. Where those links share a
// port (a switch) the last part is n - 1 times as long: the floor is then low, and still a floor.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/options.hpp"

namespace lamppost::bench {

struct LinkRate {
  std::uint64_t bytes = 0;  // message size from which on it holds
  double gbps = 0;          // 1e9 bytes a second in one direction; 0: could not be told from noise
};

/// What was measured once for all rows.
struct Floor {
  bool is_measured = false;
  double word_us = 0;           // one way, a word; 0 with one rank
  double block_us = 0;          // one way, 4 KB by a block
  double graph_node_us = 0;     // an empty kernel after another, in a graph
  double eager_launch_us = 0;   // the same, launched one by one
  std::vector<LinkRate> links;  // ascending; empty with one rank
};

struct FloorRow {
  Mode mode = Mode::kEager;
  int rank_count = 1;
  std::uint64_t bytes = 0;  // of one rank's message
};

/// Bytes that a rank pushes to one peer.
std::uint64_t bytes_per_link(const FloorRow& row);

/// Rate of the link for messages of `bytes`; 0: not known.
double link_gbps(const Floor& floor, std::uint64_t bytes);

/// Microseconds; 0 if nothing was measured.
double floor_us(const Floor& floor, const FloorRow& row);

/// Time and size of one push.
struct PushTime {
  std::uint64_t bytes = 0;
  double ns = 0;
};

/// The rate of the bytes that `larger` has more than `smaller`, so that launch and latency, which
/// both have, do not count; 0 if it did not take longer.
double marginal_gbps(const PushTime& smaller, const PushTime& larger);

}  // namespace lamppost::bench
