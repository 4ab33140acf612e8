// PeerTable: where every rank's workspace is, as this rank sees it. Transports build it once, when a
// communicator is created; kernels get it by value, so that an address never waits on a load.
#pragma once

#include "lamppost/device/layout.hpp"

namespace lamppost::device {

struct PeerTable {
  std::uint32_t rank;
  std::uint32_t rank_count;
  std::byte* workspace[kMaxRanks];  // [rank]; unused entries null

  constexpr std::byte* own() const { return workspace[rank]; }
};

/// `offset` (from Layout) in a workspace, as a V.
template <class V>
LAMPPOST_DEVICE V* at(std::byte* workspace, std::uint64_t offset) {
  return reinterpret_cast<V*>(workspace + offset);
}

}  // namespace lamppost::device
