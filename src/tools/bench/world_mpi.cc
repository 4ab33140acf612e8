// The World of ranks that are MPI processes; without LAMPPOST_HAVE_MPI, its absence.
#include "tools/bench/world.hpp"

#ifdef LAMPPOST_HAVE_MPI
#include <lamppost/lamppost_mpi.h>
#endif

namespace lamppost::bench {

#ifdef LAMPPOST_HAVE_MPI

namespace {

class MpiWorld : public World {
 public:
  MpiWorld() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count_);
  }

  int rank() const override { return rank_; }
  int rank_count() const override { return rank_count_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void all_gather(const void* mine, void* all, std::size_t bytes) override {
    const int count = static_cast<int>(bytes);  // the benchmark gathers at most a few MiB
    MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0;
  int rank_count_ = 1;
};

}  // namespace

bool has_mpi() { return true; }

MpiProcess::MpiProcess() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  world_ = std::make_unique<MpiWorld>();
}

MpiProcess::~MpiProcess() { MPI_Finalize(); }

int MpiProcess::local_rank() {
  MPI_Comm host = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &rank);
  MPI_Comm_free(&host);
  return rank;
}

Result<Communicator> MpiProcess::create_communicator(const lpConfig& config) {
  lpComm_t comm = nullptr;
  const lpResult_t result = lpCommInitMPI(&comm, MPI_COMM_WORLD, &config);
  if (result != LP_SUCCESS) return Status(result, lpGetLastError(nullptr));
  return Communicator::adopt(comm);
}

#else

bool has_mpi() { return false; }

MpiProcess::MpiProcess() = default;
MpiProcess::~MpiProcess() = default;

int MpiProcess::local_rank() { return 0; }

Result<Communicator> MpiProcess::create_communicator(const lpConfig&) {
  return Status(LP_ERROR_NOT_SUPPORTED, "this lamppost-bench was built without MPI");
}

#endif

World& MpiProcess::world() { return *world_; }

}  // namespace lamppost::bench
