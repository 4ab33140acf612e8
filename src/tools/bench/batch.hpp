// Batches of calls on one rank's stream, eager or as a graph. Belongs to one rank and one thread.
#pragma once

#include <functional>
#include <lamppost/communicator.hpp>
#include <lamppost/status.hpp>
#include <memory>
#include <vector>

#include "driver/workbench.hpp"
#include "tools/bench/buffers.hpp"

namespace lamppost::bench {

/// Enqueues one call on `stream`.
using Issue = std::function<Status(RowBuffers& buffers, void* stream)>;

/// Lamppost's own call. The arguments must outlive the result.
Issue issue_of(Communicator& communicator, const Workload& workload, Operation operation);

/// A graph and the workbench that frees it.
struct DestroyGraph {
  Workbench* workbench = nullptr;
  void operator()(void* graph) const { workbench->destroy_graph(graph); }
};
using OwnedGraph = std::unique_ptr<void, DestroyGraph>;

/// Captures what `issue_all` enqueues on `stream`.
Result<OwnedGraph> capture(Workbench& workbench, void* stream,
                           const std::function<Status()>& issue_all);

/// Where and how the calls of a batch run.
struct BatchPlace {
  Workbench& workbench;
  void* stream;
  Mode mode;
};

/// A number of equal calls that are enqueued together, on sets of buffers by turns. Eager: one by
/// one. Graph: captured once by prepare(), replayed by each enqueue().
class Batch {
 public:
  /// `sets` is not empty; all arguments must outlive the batch.
  Batch(const BatchPlace& place, std::vector<RowBuffers>& sets, int call_count, Issue issue);

  /// Collective in graph mode. Once, before anything else.
  Status prepare();
  Status enqueue();
  /// Blocks until all that was enqueued has run.
  Status finish() { return place_.workbench.synchronize(place_.stream); }

 private:
  Status issue_all();

  BatchPlace place_;
  std::vector<RowBuffers>& sets_;
  int call_count_;
  Issue issue_;
  OwnedGraph graph_;
};

}  // namespace lamppost::bench
