// Streams and graphs of the backend under test, with the checks that a test wants of them.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "driver/workbench.hpp"
#include "support/rank_group.hpp"

namespace lamppost::test {

/// One stream of a rank; destroyed with its work done.
class TestStream {
 public:
  explicit TestStream(Workbench& workbench) : workbench_(&workbench) {
    const Result<void*> created = workbench.create_stream();
    EXPECT_TRUE(created.ok()) << created.status().message();
    if (created.ok()) handle_ = created.value();
  }
  TestStream(TestStream&& other) noexcept
      : workbench_(other.workbench_), handle_(std::exchange(other.handle_, nullptr)) {}
  ~TestStream() {
    if (handle_ != nullptr) workbench_->destroy_stream(handle_);
  }

  void* handle() const { return handle_; }
  void begin_capture() const { expect_ok(workbench_->begin_capture(handle_)); }
  void* end_capture() const {
    const Result<void*> graph = workbench_->end_capture(handle_);
    expect_ok(graph.status());
    return graph.ok() ? graph.value() : nullptr;
  }
  void launch(void* graph) const { expect_ok(workbench_->launch_graph(graph, handle_)); }
  void destroy(void* graph) const { workbench_->destroy_graph(graph); }
  void synchronize() const { expect_ok(workbench_->synchronize(handle_)); }

 private:
  static void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

  Workbench* workbench_;
  void* handle_ = nullptr;
};

/// A stream for every rank.
inline std::vector<TestStream> make_streams(const RankGroup& group) {
  std::vector<TestStream> streams;
  for (int r = 0; r < group.size(); ++r) streams.emplace_back(group.workbench(r));
  return streams;
}

}  // namespace lamppost::test
