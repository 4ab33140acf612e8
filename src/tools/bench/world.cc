#include "tools/bench/world.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tools/bench/workload.hpp"

namespace lamppost::bench {

std::uint64_t World::sum(std::uint64_t mine) {
  const std::vector<std::uint64_t> all = gather(mine);
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

std::uint64_t World::max(std::uint64_t mine) {
  const std::vector<std::uint64_t> all = gather(mine);
  return *std::max_element(all.begin(), all.end());
}

std::vector<std::string> World::gather_texts(const std::string& mine) {
  const std::vector<std::uint64_t> lengths = gather(std::uint64_t{mine.size()});
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<char> padded(longest, '\0');
  std::copy(mine.begin(), mine.end(), padded.begin());
  const std::vector<char> all = gather_array(padded);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.emplace_back(all.data() + rank * longest, lengths[rank]);
  }
  return texts;
}

std::uint64_t count_rank_differences(World& world, const void* data, std::size_t bytes,
                                     std::size_t element_bytes) {
  const std::vector<std::uint64_t> hashes = world.gather(hash_bytes(data, bytes));
  const auto is_first = [&hashes](std::uint64_t hash) { return hash == hashes[0]; };
  if (std::all_of(hashes.begin(), hashes.end(), is_first)) return 0;

  constexpr std::size_t kChunkBytes = 64 * 1024;  // a multiple of every element's bytes
  const auto rank_count = static_cast<std::size_t>(world.rank_count());
  std::vector<std::byte> all(rank_count * kChunkBytes);
  std::uint64_t different = 0;
  for (std::size_t at = 0; at < bytes; at += kChunkBytes) {
    const std::size_t chunk = std::min(kChunkBytes, bytes - at);
    world.all_gather(static_cast<const std::byte*>(data) + at, all.data(), chunk);
    for (std::size_t rank = 1; rank < rank_count; ++rank) {
      different += count_differences(all.data(), all.data() + rank * chunk, chunk, element_bytes);
    }
  }
  return different;
}

}  // namespace lamppost::bench
