#include "tools/bench/batch.hpp"

namespace lamppost::bench {

Issue issue_of(Communicator& communicator, const Workload& workload, Operation operation) {
  if (operation != Operation::kAllReduceRmsNorm) {
    return [&communicator, &workload](RowBuffers& buffers, void* stream) {
      return communicator.all_reduce(buffers.in(), buffers.out(), workload.row.elements,
                                     workload.type, stream);
    };
  }
  return [&communicator, &workload](RowBuffers& buffers, void* stream) {
    lpAllReduceRMSNormArgs args = LP_ALL_REDUCE_RMS_NORM_INITIALIZER;
    args.in = buffers.in();
    args.out = buffers.out();
    args.residual_in = buffers.residual_in();
    args.residual_out = buffers.residual_out();
    args.weight = buffers.weight();
    args.type = workload.type;
    args.weight_type = workload.type;
    args.tokens = workload.row.tokens;
    args.hidden = workload.row.hidden;
    args.epsilon = workload.epsilon;
    return communicator.all_reduce_rms_norm(args, stream);
  };
}

Result<OwnedGraph> capture(Workbench& workbench, void* stream,
                           const std::function<Status()>& issue_all) {
  Status status = workbench.begin_capture(stream);
  if (!status.ok()) return status;
  status = issue_all();
  Result<void*> graph = workbench.end_capture(stream);  // even so: the stream must leave it
  if (!graph.ok()) return status.ok() ? graph.status() : status;
  OwnedGraph owned(graph.value(), DestroyGraph{&workbench});
  if (!status.ok()) return status;
  return owned;
}

Batch::Batch(const BatchPlace& place, std::vector<RowBuffers>& sets, int call_count, Issue issue)
    : place_(place), sets_(sets), call_count_(call_count), issue_(std::move(issue)) {}

Status Batch::prepare() {
  if (place_.mode == Mode::kEager) return {};
  Result<OwnedGraph> graph =
      capture(place_.workbench, place_.stream, [this] { return issue_all(); });
  if (graph.ok()) graph_ = graph.take();
  return graph.status();
}

Status Batch::enqueue() {
  if (place_.mode == Mode::kEager) return issue_all();
  return place_.workbench.launch_graph(graph_.get(), place_.stream);
}

Status Batch::issue_all() {
  for (int call = 0; call < call_count_; ++call) {
    Status status = issue_(sets_[static_cast<std::size_t>(call) % sets_.size()], place_.stream);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace lamppost::bench
