// PeerTable: where every rank's workspace is, as this rank sees it. Transports build it once, when a
// communicator is created; kernels get it by value, so that an address never waits on a load.
#pragma once

#include "lamppost/device/layout.hpp"

namespace lamppost::device {

/// The workspaces stand in ring order from this rank on. So a kernel of a known world, whose ranks push to
/// their nearest higher ranks first, finds each address at a place that is known when it is compiled.
struct PeerTable {
  std::uint32_t rank;
  std::uint32_t rank_count;
  std::byte* ring[kMaxRanks];  // [i]: of rank (rank + i) % rank_count; unused entries null

  constexpr std::byte* own() const { return ring[0]; }
  constexpr std::uint32_t place_of(std::uint32_t other) const {
    return other >= rank ? other - rank : other + rank_count - rank;
  }
  constexpr std::byte* workspace(std::uint32_t other) const { return ring[place_of(other)]; }
};

/// `offset` (from Layout) in a workspace, as a V.
template <class V>
LAMPPOST_DEVICE V* at(std::byte* workspace, std::uint64_t offset) {
  return reinterpret_cast<V*>(workspace + offset);
}

}  // namespace lamppost::device
