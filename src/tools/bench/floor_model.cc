#include "tools/bench/floor_model.hpp"

namespace lamppost::bench {

std::uint64_t bytes_per_link(const FloorRow& row) { return row.rank_count == 1 ? 0 : row.bytes; }

double link_gbps(const Floor& floor, std::uint64_t bytes) {
  double gbps = floor.links.empty() ? 0 : floor.links.front().gbps;
  for (const LinkRate& link : floor.links) {
    if (link.bytes <= bytes) gbps = link.gbps;
  }
  return gbps;
}

double floor_us(const Floor& floor, const FloorRow& row) {
  if (!floor.is_measured) return 0;
  const double launch = row.mode == Mode::kGraph ? floor.graph_node_us : floor.eager_launch_us;
  const double message = row.rank_count == 1 ? 0 : floor.word_us;
  const double gbps = link_gbps(floor, row.bytes);
  const double link = gbps == 0 ? 0 : static_cast<double>(bytes_per_link(row)) * 1e-3 / gbps;
  return launch + message + link;
}

double marginal_gbps(const PushTime& smaller, const PushTime& larger) {
  if (larger.ns <= smaller.ns) return 0;
  return static_cast<double>(larger.bytes - smaller.bytes) / (larger.ns - smaller.ns);
}

}  // namespace lamppost::bench
