// The MPI bootstrap across real ranks: `mpirun -np 3 mpi_bootstrap_test`, any number from 2 up.
// Each check is judged on all ranks (over MPI_COMM_WORLD, which the bootstraps here do not use);
// rank 0 prints a line for it. The exit status of every rank is 0 only if all checks passed.
#include "bootstrap/mpi_bootstrap.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "support/sleep.hpp"

namespace lamppost::test {
namespace {

int world_rank = 0;
int world_count = 0;
bool all_passed = true;

/// Collective. `reason` is empty where this rank is content.
void check(const char* name, const std::string& reason) {
  int mine = reason.empty() ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (mine == 0) fmt::print("  rank {}: {}\n", world_rank, reason);
  if (world_rank == 0) fmt::print("{}: {}\n", all == 1 ? "pass" : "FAIL", name);
  if (all == 0) all_passed = false;
}

/// "" if `status` has this code and its text holds `word`.
std::string expect(const Status& status, lpResult_t code, const std::string& word = "") {
  const bool right = status.code() == code && status.message().find(word) != std::string::npos;
  return right ? "" : fmt::format("code {}: '{}'", int(status.code()), status.message());
}

/// A communicator of all ranks that is freed at the end of a check.
struct Duplicate {
  MPI_Comm comm = MPI_COMM_NULL;
  explicit Duplicate(MPI_Comm of = MPI_COMM_WORLD) { MPI_Comm_dup(of, &comm); }
  ~Duplicate() { MPI_Comm_free(&comm); }
  Duplicate(const Duplicate&) = delete;
  Duplicate& operator=(const Duplicate&) = delete;
};

std::unique_ptr<Bootstrap> make(MPI_Comm comm) {
  auto made = make_mpi_bootstrap(comm);
  if (made.ok()) return made.take();
  fmt::print("rank {}: {}\n", world_rank, made.status().message());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return nullptr;
}

Status gather_numbers(Bootstrap& bootstrap, int step, const char* phase = "numbers") {
  std::vector<int> all;
  Status status = all_gather_value(bootstrap, step * 1000 + bootstrap.rank(), all, phase);
  for (int rank = 0; status.ok() && rank < bootstrap.rank_count(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] != step * 1000 + rank) {
      status = Status(LP_ERROR_INTERNAL, fmt::format("wrong number of rank {}", rank));
    }
  }
  return status;
}

void test_rounds() {
  Duplicate world;
  auto bootstrap = make(world.comm);
  check("gather", expect(gather_numbers(*bootstrap, 1), LP_SUCCESS));
  Status status;
  for (int step = 0; step < 600 && status.ok(); ++step) {  // more than there are tags
    status = gather_numbers(*bootstrap, step);
    if (step % 100 == world_rank) sleep_ms(3);
  }
  check("600 gathers back to back", expect(status, LP_SUCCESS));
  check("barrier of zero bytes", expect(bootstrap->barrier("barrier"), LP_SUCCESS));
  auto second = make(world.comm);
  check("second bootstrap over the same communicator",
        expect(gather_numbers(*second, 2), LP_SUCCESS));
  Status mine;
  if (world_rank == 1) mine = Status(LP_ERROR_DRIVER, "no handle");
  check("vote", expect(vote(*second, mine, "export"), LP_ERROR_DRIVER,
                       "rank 1 failed at step 'export': no handle"));
}

void test_large_payload() {
  Duplicate world;
  auto bootstrap = make(world.comm);
  const std::size_t bytes = 2 << 20;
  const std::vector<char> mine(bytes, static_cast<char>('a' + world_rank));
  std::vector<char> all(bytes * static_cast<std::size_t>(world_count));
  Status status = bootstrap->all_gather(mine.data(), all.data(), bytes, "large");
  for (std::size_t i = 0; status.ok() && i < all.size(); ++i) {
    if (all[i] != static_cast<char>('a' + i / bytes)) {
      status = Status(LP_ERROR_INTERNAL, "wrong byte");
    }
  }
  check("2 MiB of each rank", expect(status, LP_SUCCESS));
}

void test_subset() {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank < 2 ? 0 : MPI_UNDEFINED, 0, &half);
  Status status;
  if (world_rank < 2) {  // the others do nothing at all
    auto bootstrap = make(half);
    status = gather_numbers(*bootstrap, 3);
    bootstrap.reset();
    MPI_Comm_free(&half);
  }
  check("ranks 0 and 1 alone", expect(status, LP_SUCCESS));
}

void test_error_handler() {
  Duplicate world;
  MPI_Comm_set_errhandler(world.comm, MPI_ERRORS_ARE_FATAL);
  auto bootstrap = make(world.comm);
  Status status = gather_numbers(*bootstrap, 4);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(world.comm, &handler);
  std::string reason = expect(status, LP_SUCCESS);
  if (handler != MPI_ERRORS_ARE_FATAL) reason += "another error handler";
  MPI_Errhandler_free(&handler);
  check("the caller's error handler is back", reason);
}

void test_mismatch() {
  const int odd = world_count - 1;
  {
    Duplicate world;
    auto bootstrap = make(world.comm);
    std::vector<char> mine(16), all(static_cast<std::size_t>(16 * world_count));
    const std::size_t bytes = world_rank == odd ? 16 : 8;
    check("other bytes are named",
          expect(bootstrap->all_gather(mine.data(), all.data(), bytes, "sizes"), LP_ERROR_BOOTSTRAP,
                 fmt::format("rank {} gathers 16 bytes", odd)));
  }
  Duplicate world;
  auto bootstrap = make(world.comm);
  const char* phase = world_rank == odd ? "handles" : "numbers";
  check("another phase is named",
        expect(gather_numbers(*bootstrap, 5, phase), LP_ERROR_BOOTSTRAP,
               fmt::format("rank {} gathers 4 bytes in step 'handles'", odd)));
}

/// The last rank leaves one gather out. `bytes` decides how MPI sends: at once, or by agreement
/// with the receiver, which leaves requests pending at the deadline.
void test_missing_rank(const char* name, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kTimeoutMs = 500;
  const int missing = world_count - 1;
  Duplicate world;
  auto bootstrap = make(world.comm);
  Status status = gather_numbers(*bootstrap, 6);
  std::string reason = expect(status, LP_SUCCESS);
  if (world_rank != missing) {
    bootstrap->set_timeout_ms(kTimeoutMs);
    const std::vector<char> mine(bytes);
    std::vector<char> all(bytes * static_cast<std::size_t>(world_count));
    const auto start = Clock::now();
    status = bootstrap->all_gather(mine.data(), all.data(), bytes, "second");
    const auto waited = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - start).count();
    reason += expect(status, LP_ERROR_TIMEOUT,
                     fmt::format("'second': rank {} did not come within 0.5 s", missing));
    if (waited < kTimeoutMs || waited > kTimeoutMs + 500) reason += fmt::format("{} ms", waited);
    reason += expect(bootstrap->barrier("third"), LP_ERROR_TIMEOUT, "'second'");
    reason += expect(make_mpi_bootstrap(world.comm).status(), LP_ERROR_INVALID_USAGE,
                     "use a new communicator");
  }
  check(name, reason);
  Duplicate retry(world.comm);
  check("retry on a duplicate", expect(gather_numbers(*make(retry.comm), 7), LP_SUCCESS));
}

void test_bad_communicators() {
  std::string reason = expect(make_mpi_bootstrap(MPI_COMM_NULL).status(), LP_ERROR_INVALID_ARGUMENT,
                              "MPI_COMM_NULL");
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? 0 : 1, 0, &own);
  MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, world_rank == 0 ? 1 : 0, 0, &inter);
  reason +=
      expect(make_mpi_bootstrap(inter).status(), LP_ERROR_INVALID_ARGUMENT, "intercommunicator");
  MPI_Comm_free(&inter);
  MPI_Comm_free(&own);
  check("null and intercommunicators are refused", reason);
}

int run(int argc, char** argv) {
  const std::string before = expect(make_mpi_bootstrap(MPI_COMM_WORLD).status(),
                                    LP_ERROR_INVALID_USAGE, "not initialised");
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_count);
  if (world_count < 2) {
    fmt::print("run me with mpirun -np 3\n");
    MPI_Finalize();
    return 1;
  }
  check("refused before MPI_Init", before);
  test_rounds();
  test_large_payload();
  test_subset();
  test_error_handler();
  test_mismatch();
  test_bad_communicators();
  test_missing_rank("missing rank times out and is named", 8);
  test_missing_rank("missing rank with sends left pending", 64 << 10);

  Duplicate* world = new Duplicate;  // not freed: the bootstrap outlives MPI
  auto survivor = make(world->comm);
  check("gather before MPI_Finalize", expect(gather_numbers(*survivor, 8), LP_SUCCESS));
  const bool passed = all_passed;
  MPI_Finalize();
  const std::string after =
      expect(survivor->barrier("late"), LP_ERROR_INVALID_USAGE, "finalised") +
      expect(make_mpi_bootstrap(MPI_COMM_WORLD).status(), LP_ERROR_INVALID_USAGE, "finalised");
  survivor.reset();
  if (world_rank == 0) {
    fmt::print("{}: refused after MPI_Finalize{}\n", after.empty() ? "pass" : "FAIL", after);
  }
  return passed && after.empty() ? 0 : 1;
}

}  // namespace
}  // namespace lamppost::test

int main(int argc, char** argv) { return lamppost::test::run(argc, argv); }
