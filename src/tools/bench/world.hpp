// World: what the benchmark itself needs to hear from the other ranks. It goes past Lamppost, so
// that a broken collective cannot hide behind itself. Two kinds: threads of this process, and MPI
// processes. A World belongs to one rank and one thread; its methods are collective and block until
// every rank has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <lamppost/communicator.hpp>
#include <lamppost/status.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace lamppost::bench {

class World {
 public:
  virtual ~World() = default;

  virtual int rank() const = 0;
  virtual int rank_count() const = 0;
  virtual void barrier() = 0;
  /// Gathers `bytes` (equal on all ranks) of every rank into `all`, in rank order, on every rank.
  virtual void all_gather(const void* mine, void* all, std::size_t bytes) = 0;

  template <class T>
  std::vector<T> gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(static_cast<std::size_t>(rank_count()));
    all_gather(&mine, all.data(), sizeof(T));
    return all;
  }
  /// Arrays of equal length, one after the other in rank order.
  template <class T>
  std::vector<T> gather_array(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(mine.size() * static_cast<std::size_t>(rank_count()));
    all_gather(mine.data(), all.data(), mine.size() * sizeof(T));
    return all;
  }
  std::uint64_t sum(std::uint64_t mine);
  std::uint64_t max(std::uint64_t mine);
  bool any(bool mine) { return sum(mine ? 1 : 0) != 0; }
  /// Texts of any length, in rank order.
  std::vector<std::string> gather_texts(const std::string& mine);
};

/// Elements that differ from rank 0's, over all ranks; 0 if all ranks hold the same bits. A hash
/// decides; the data itself is exchanged only to count. `bytes` and `element_bytes` are equal on
/// all ranks.
std::uint64_t count_rank_differences(World& world, const void* data, std::size_t bytes,
                                     std::size_t element_bytes);

/// The ranks of a process. worlds[r] is for the thread of rank r; they may outlive this vector's
/// creator but not each other's calls.
std::vector<std::unique_ptr<World>> make_thread_worlds(int rank_count);

/// True if this build can run ranks as MPI processes.
bool has_mpi();

/// MPI in this process: MPI_Init at creation, MPI_Finalize at destruction. Only one, only if
/// has_mpi().
class MpiProcess {
 public:
  MpiProcess();
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  /// All ranks of MPI_COMM_WORLD. Valid as long as this object.
  World& world();
  /// This process's number among those of its host. Collective.
  int local_rank();
  /// This process's rank. Collective.
  Result<Communicator> create_communicator(const lpConfig& config);

 private:
  std::unique_ptr<World> world_;
};

}  // namespace lamppost::bench
