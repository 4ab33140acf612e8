#include "tools/bench/devices.hpp"

#include <cstdlib>
#include <string_view>

namespace lamppost::bench {

int device_of(int local_rank, int device_count, Sharing sharing) {
  if (device_count == 0) return LP_DEFAULT;
  return sharing == Sharing::kShared ? local_rank % device_count : local_rank;
}

int prepare_devices(const Options& options) {
  const char* chosen =
      options.backend == LP_BACKEND_AUTO ? std::getenv("LAMPPOST_BACKEND") : nullptr;
  const bool is_cuda = chosen == nullptr || *chosen == '\0' || chosen == std::string_view("cuda");
  if (options.backend == LP_BACKEND_HOST || options.backend == LP_BACKEND_HIP || !is_cuda) return 0;
  // A queue for each rank's stream: streams that share one wait for each other's kernels, and a
  // kernel that waits for its peer behind it waits for ever. The driver reads this when it starts.
  if (options.sharing == Sharing::kShared) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  return device_count(LP_BACKEND_CUDA);
}

lpConfig config_of(const Options& options, int device) {
  lpConfig config = LP_CONFIG_INITIALIZER;
  config.backend = options.backend;
  config.device = device;
  config.timeout_ms = options.timeout_ms;
  config.slot_bytes = options.slot_bytes;
  config.allow_shared_device = options.sharing == Sharing::kShared ? 1 : 0;
  config.early_launch = options.early_launch ? 1 : 0;
  return config;
}

Result<std::unique_ptr<RankSeat>> RankSeat::create(Communicator communicator, int device) {
  Result<std::unique_ptr<Workbench>> workbench = make_workbench(communicator.handle(), device);
  if (!workbench.ok()) return workbench.status();
  Result<void*> stream = workbench.value()->create_stream();
  if (!stream.ok()) return stream.status();
  std::unique_ptr<RankSeat> seat(new RankSeat);
  seat->workbench_ = workbench.take();
  seat->stream_ = stream.value();
  seat->device_ = device;
  seat->communicator_ = std::move(communicator);
  return seat;
}

RankSeat::~RankSeat() {
  static_cast<void>(communicator_.destroy());  // before the stream that its calls were made on
  workbench_->destroy_stream(stream_);
}

Result<std::vector<Communicator>> create_thread_ranks(const Options& options, int device_count) {
  const auto rank_count = static_cast<std::size_t>(options.thread_ranks);
  std::vector<int> devices;
  for (int rank = 0; rank < options.thread_ranks; ++rank) {
    devices.push_back(device_of(rank, device_count, options.sharing));
  }
  const lpConfig config = config_of(options, LP_DEFAULT);
  std::vector<lpComm_t> handles(rank_count);
  const lpResult_t result = lpCommInitAll(handles.data(), options.thread_ranks,
                                          device_count == 0 ? nullptr : devices.data(), &config);
  if (result != LP_SUCCESS) return Status(result, lpGetLastError(nullptr));
  std::vector<Communicator> communicators;
  Status failed;
  for (const lpComm_t handle : handles) {
    Result<Communicator> communicator = Communicator::adopt(handle);
    if (communicator.ok()) {
      communicators.push_back(communicator.take());
    } else {
      failed = communicator.status();
      static_cast<void>(lpCommDestroy(handle));
    }
  }
  if (!failed.ok()) return failed;
  return communicators;
}

}  // namespace lamppost::bench
