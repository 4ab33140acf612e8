#include "bootstrap/mpi_bootstrap.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <chrono>
#include <climits>
#include <thread>
#include <utility>

#include "bootstrap/mpi_exchange.hpp"

namespace lamppost {
namespace {

using boot::Deadline;
using boot::Frame;
using boot::mpi_status;
using boot::MpiExchange;

/// Lets MPI calls on a communicator return their errors, and puts the caller's handler back.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(MPI_Comm comm) : comm_(comm) {
    saved_ = MPI_Comm_get_errhandler(comm_, &handler_) == MPI_SUCCESS;
    (void)MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() {
    if (!saved_) return;
    (void)MPI_Comm_set_errhandler(comm_, handler_);
    (void)MPI_Errhandler_free(&handler_);  // this object's reference, not the caller's handler
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  bool saved_ = false;
};

/// The attribute that marks communicators with stale messages. Not copied by MPI_Comm_dup: messages
/// of one communicator never reach another. MPI_KEYVAL_INVALID if MPI refuses to make it.
int failed_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    (void)MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr);
    return made;
  }();
  return key;
}

void mark_failed(MPI_Comm comm) {
  static int present = 1;
  if (failed_key() != MPI_KEYVAL_INVALID) (void)MPI_Comm_set_attr(comm, failed_key(), &present);
}

bool is_marked_failed(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  if (failed_key() == MPI_KEYVAL_INVALID) return false;
  return MPI_Comm_get_attr(comm, failed_key(), &value, &found) == MPI_SUCCESS && found != 0;
}

/// Ok while MPI may be called. These two queries are allowed at any time.
Status check_mpi_running() {
  int initialized = 0;
  int finalized = 0;
  Status status = mpi_status(MPI_Initialized(&initialized), "MPI_Initialized");
  if (status.ok()) status = mpi_status(MPI_Finalized(&finalized), "MPI_Finalized");
  if (!status.ok()) return status;
  if (initialized == 0) {
    return Status(LP_ERROR_INVALID_USAGE,
                  "bootstrap: MPI is not initialised: call MPI_Init or MPI_Init_thread first");
  }
  if (finalized != 0) {
    return Status(LP_ERROR_INVALID_USAGE, "bootstrap: MPI has been finalised already");
  }
  return {};
}

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(MPI_Comm comm, int rank, int rank_count)
      : comm_(comm), rank_(rank), rank_count_(rank_count) {}

  int rank() const override { return rank_; }
  int rank_count() const override { return rank_count_; }

  Status all_gather(const void* mine, void* all, std::size_t bytes, const char* phase) override {
    if (!failure_.ok()) return failure_;
    Status running = check_mpi_running();
    if (!running.ok()) return running;
    if (bytes > static_cast<std::size_t>(INT_MAX)) {
      return Status(
          LP_ERROR_INVALID_ARGUMENT,
          fmt::format("bootstrap step '{}': {} bytes are too many for MPI", phase, bytes));
    }
    const ErrorsReturn errors_return(comm_);
    const Deadline deadline = Deadline::after_ms(timeout_ms());
    const Frame call = boot::data_frame({rank_, ++sequence_, bytes, phase}, deadline);
    const int tag = kMpiFirstTag + static_cast<int>(sequence_ % kMpiTagCount);
    auto exchange = std::make_unique<MpiExchange>(comm_, tag, call, mine, rank_count_);
    Status status = exchange->start();
    if (status.ok()) status = finish(*exchange, phase, deadline);
    if (status.ok()) {
      if (bytes > 0) std::memcpy(all, exchange->payloads().data(), exchange->payloads().size());
      return {};
    }
    MpiExchange::give_up(std::move(exchange));
    mark_failed(comm_);
    failure_ = status;
    return status;
  }

 private:
  Status finish(MpiExchange& exchange, const char* phase, const Deadline& deadline) {
    constexpr int kYields = 2'000;  // some milliseconds, then sleep: a late rank may need this core
    for (int turn = 0;; ++turn) {
      Status status = exchange.poll();
      if (!status.ok()) return status;
      const std::vector<int> missing = exchange.missing();
      if (missing.empty()) return {};
      if (deadline.passed()) return boot::timeout_error(phase, missing, deadline.timeout_ms());
      if (turn < kYields) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }

  const MPI_Comm comm_;
  const int rank_;
  const int rank_count_;
  std::uint64_t sequence_ = 0;
  Status failure_;
};

Status check_communicator(MPI_Comm comm) {
  int inter = 0;
  Status status = mpi_status(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (!status.ok()) return status;
  if (inter != 0) {
    return Status(LP_ERROR_INVALID_ARGUMENT, "bootstrap: mpi_comm is an intercommunicator");
  }
  if (is_marked_failed(comm)) {
    return Status(LP_ERROR_INVALID_USAGE,
                  "bootstrap: an earlier set-up over this mpi_comm failed and left messages in it: "
                  "use a new communicator (MPI_Comm_dup)");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> make_mpi_bootstrap(MPI_Comm comm) {
  Status running = check_mpi_running();
  if (!running.ok()) return running;
  if (comm == MPI_COMM_NULL) {
    return Status(LP_ERROR_INVALID_ARGUMENT, "bootstrap: mpi_comm is MPI_COMM_NULL");
  }
  const ErrorsReturn errors_return(comm);
  Status checked = check_communicator(comm);
  if (!checked.ok()) return checked;
  int rank = 0;
  int rank_count = 0;
  Status status = mpi_status(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (status.ok()) status = mpi_status(MPI_Comm_size(comm, &rank_count), "MPI_Comm_size");
  if (!status.ok()) return status;
  if (rank_count > LP_MAX_RANKS) {
    return Status(LP_ERROR_INVALID_ARGUMENT,
                  fmt::format("bootstrap: mpi_comm has {} ranks, Lamppost has room for {}",
                              rank_count, LP_MAX_RANKS));
  }
  return std::unique_ptr<Bootstrap>(std::make_unique<MpiBootstrap>(comm, rank, rank_count));
}

}  // namespace lamppost
