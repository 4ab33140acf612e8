// Sums a vector over all ranks. With MPI every process is one rank; without it the ranks are
// threads of this process. The code of a rank, run_rank, is the same in both.
#include <cstdio>
#include <lamppost/communicator.hpp>
#include <thread>
#include <vector>

#ifdef LAMPPOST_HAVE_MPI
#include <lamppost/lamppost_mpi.h>
#endif

namespace {

constexpr std::size_t kCount = 1000;

bool failed(const char* what, const lamppost::Status& status) {
  if (status.ok()) return false;
  std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
  return true;
}

/// What one rank does. Returns true if its result is right.
bool run_rank(lamppost::Communicator& communicator) {
  const int rank = communicator.rank();
  const int rank_count = communicator.rank_count();

  // On the host backend any memory will do. Rank r contributes (r + 1) * i at place i.
  std::vector<float> in(kCount);
  std::vector<float> out(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    in[i] = static_cast<float>(rank + 1) * static_cast<float>(i);
  }

  // Every rank makes the same call. It returns as soon as the work is in the communicator's stream:
  // the vectors must live, and `out` must not be read, until the stream has run it.
  if (failed("all_reduce", communicator.all_reduce(in.data(), out.data(), kCount, LP_FLOAT32))) {
    return false;
  }
  if (failed("synchronize", communicator.synchronize())) return false;
  // The stream has run the call; whether it succeeded is a question of its own. A peer that never
  // came, say, shows here, with a sentence that names it.
  if (failed("the call itself", communicator.async_error())) return false;

  // 1 + 2 + ... + rank_count, times i: exact in fp32 for such small numbers.
  const float factor = static_cast<float>(rank_count * (rank_count + 1)) / 2;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (out[i] != factor * static_cast<float>(i)) ++wrong;
  }
  std::printf("rank %d of %d: out[3] = %g, %zu wrong\n", rank, rank_count, out[3], wrong);
  return wrong == 0;
}

/// On a GPU, `in` and `out` would be memory of the GPU.
lpConfig on_the_host() {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = LP_BACKEND_HOST;
  return config;
}

#ifdef LAMPPOST_HAVE_MPI

/// This process is one rank; mpirun started the others.
bool run_all() {
  lpComm_t comm = nullptr;
  const lpConfig config = on_the_host();
  if (lpCommInitMPI(&comm, MPI_COMM_WORLD, &config) != LP_SUCCESS) {
    std::fprintf(stderr, "lpCommInitMPI: %s\n", lpGetLastError(nullptr));
    return false;
  }
  // The C++ object takes the handle over and destroys it.
  lamppost::Result<lamppost::Communicator> communicator = lamppost::Communicator::adopt(comm);
  return !failed("adopt", communicator.status()) && run_rank(communicator.value());
}

#else

/// All ranks are threads of this process.
bool run_all() {
  const lpConfig config = on_the_host();
  auto created = lamppost::Communicator::create_all(4, &config);
  if (failed("create_all", created.status())) return false;
  std::vector<lamppost::Communicator> communicators = created.take();
  std::vector<char> right(communicators.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < communicators.size(); ++rank) {
    threads.emplace_back([&, rank] { right[rank] = run_rank(communicators[rank]) ? 1 : 0; });
  }
  bool all_right = true;
  for (std::size_t rank = 0; rank < threads.size(); ++rank) {
    threads[rank].join();
    all_right = all_right && right[rank] != 0;
  }
  return all_right;
}

#endif

}  // namespace

int main(int argc, char** argv) {
#ifdef LAMPPOST_HAVE_MPI
  MPI_Init(&argc, &argv);  // Lamppost uses MPI that is already there; it never starts or ends it
  const bool right = run_all();
  MPI_Finalize();
#else
  static_cast<void>(argc);
  static_cast<void>(argv);
  const bool right = run_all();
#endif
  return right ? 0 : 1;
}
