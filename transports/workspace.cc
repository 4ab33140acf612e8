#include "transports/workspace.hpp"

#include <fmt/core.h>

#include <array>

namespace lamppost {
namespace {

using device::ControlLine;
using device::kGuardBytes;
using device::kGuardWord;
using device::Layout;

struct Guard {
  const char* region;
  std::uint64_t offset;
};

std::array<Guard, 3> guards(const Layout& layout) {
  return {Guard{"start of the control block", 0},
          Guard{"end of the control block", Layout::kControlBytes - kGuardBytes},
          Guard{"end of the channels", layout.end_guard()}};
}

Status fill(Driver& driver, const Layout& layout, std::byte* memory) {
  constexpr std::uint64_t kWord = sizeof(std::uint32_t);
  Status status = driver.fill_words(memory, 0, Layout::kControlBytes / kWord);
  if (status.ok()) {
    status = driver.fill_words(memory + layout.channel(0), 0x80000000u,
                               device::kChannels * layout.generation(device::kGenerations) / kWord);
  }
  for (const Guard& guard : guards(layout)) {
    if (!status.ok()) return status;
    status = driver.fill_words(memory + guard.offset, kGuardWord, kGuardBytes / kWord);
  }
  if (!status.ok()) return status;
  constexpr std::uint32_t kFirstCommunicatorGeneration = 1;
  const ControlLine line{ControlLine::pack_call(0, 0), kFirstCommunicatorGeneration << 1, 0, 0};
  status = driver.write(memory + Layout::kControlLine, &line, sizeof(line));
  return status.ok() ? driver.synchronize_device() : status;
}

}  // namespace

Result<Workspace> set_up_workspace(Bootstrap& bootstrap, Driver& driver, Transport& transport,
                                   const Layout& layout, const PlantedFault& fault) {
  const int rank = bootstrap.rank();
  Result<std::shared_ptr<SharedMapping>> own = fault.check(rank, "allocate");
  if (own.status().ok()) own = driver.allocate_shared(layout.bytes(), "lamppost-workspace");
  Status status = vote(bootstrap, own.status(), "allocate the workspace");
  if (!status.ok()) return status;

  Status filled = fault.check(rank, "fill");
  if (filled.ok()) filled = fill(driver, layout, own.value()->address());
  status = vote(bootstrap, filled, "fill the workspace");
  if (!status.ok()) return status;

  Result<PeerMemory> peers = transport.connect(bootstrap, driver, own.take(), fault);
  if (!peers.ok()) return peers.status();
  return Workspace{layout, peers.take()};
}

Status check_guards(Driver& driver, const Workspace& workspace) {
  for (const Guard& guard : guards(workspace.layout)) {
    std::array<std::uint32_t, kGuardBytes / sizeof(std::uint32_t)> words{};
    Status status =
        driver.read(words.data(), workspace.peers.table.own() + guard.offset, kGuardBytes);
    if (!status.ok()) return status;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == kGuardWord) continue;
      return Status(LP_ERROR_CORRUPT,
                    fmt::format("workspace of rank {}: guard at the {} is overwritten (word {} is "
                                "{:#010x}, not {:#010x})",
                                workspace.peers.table.rank, guard.region, i, words[i], kGuardWord));
    }
  }
  return {};
}

}  // namespace lamppost
