// The columns that table and HTML share: those that a run has only if it was asked for something,
// or that say how a time came about.
#include <fmt/core.h>

#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

std::string time_or_dash(double us) { return us == 0 ? "-" : microseconds_text(us); }

std::string ratio_or_dash(double ratio) { return ratio == 0 ? "-" : fmt::format("{:.2f}", ratio); }

void add_floor(const Report& report, std::vector<Column>& columns) {
  if (!report.floor.is_measured) return;
  columns.push_back({"floor", "us", [](const RowResult& r) { return time_or_dash(r.floor_us); }});
  columns.push_back(
      {"x floor", "", [](const RowResult& r) { return ratio_or_dash(r.over_floor()); }});
}

void add_nccl(const Report& report, std::vector<Column>& columns) {
  if (report.options.compare != Comparison::kNccl) return;
  columns.push_back({"nccl", "us", [](const RowResult& r) { return time_or_dash(r.nccl.p50_us); }});
  columns.push_back(
      {"nccl sym", "us", [](const RowResult& r) { return time_or_dash(r.nccl_symmetric.p50_us); }});
  columns.push_back(
      {"nccl/ours", "", [](const RowResult& r) { return ratio_or_dash(r.ratio(r.nccl)); }});
  columns.push_back({"sym/ours", "",
                     [](const RowResult& r) { return ratio_or_dash(r.ratio(r.nccl_symmetric)); }});
}

}  // namespace

std::vector<Column> time_columns(const Report& report) {
  std::vector<Column> columns{
      {"avg", "us", [](const RowResult& r) { return microseconds_text(r.time.avg_us); }},
      {"p50", "us", [](const RowResult& r) { return microseconds_text(r.time.p50_us); }},
      {"p99", "us", [](const RowResult& r) { return microseconds_text(r.time.p99_us); }},
  };
  if (!report.has_collectives()) {
    columns.push_back(
        {"max", "us", [](const RowResult& r) { return microseconds_text(r.time.max_us); }});
  }
  if (report.options.operation == Operation::kInit) {
    columns.push_back({"destroy p50", "us",
                       [](const RowResult& r) { return microseconds_text(r.destroy.p50_us); }});
    columns.push_back({"destroy max", "us",
                       [](const RowResult& r) { return microseconds_text(r.destroy.max_us); }});
  }
  if (!report.has_collectives()) return columns;
  columns.push_back(
      {"skew", "us", [](const RowResult& r) { return microseconds_text(r.time.skew_us); }});
  columns.push_back(
      {"host", "us", [](const RowResult& r) { return microseconds_text(r.time.host_us); }});
  columns.push_back(
      {"device", "us", [](const RowResult& r) { return microseconds_text(r.device.p50_us); }});
  columns.push_back(
      {"dev skew", "us", [](const RowResult& r) { return microseconds_text(r.device.skew_us); }});
  add_floor(report, columns);
  add_nccl(report, columns);
  columns.push_back(
      {"cache", "", [](const RowResult& r) { return cache_state_name(r.rotation.cache); }});
  return columns;
}

std::string floor_sentence(const Report& report) {
  const Floor& floor = report.floor;
  std::string text =
      fmt::format("an empty kernel takes {} us in a graph and {} us launched alone",
                  microseconds_text(floor.graph_node_us), microseconds_text(floor.eager_launch_us));
  if (report.rank_count() == 1) return text + "; one rank has no link";
  text +=
      fmt::format("; one way between ranks 0 and 1: {} us for a word, {} us for 4 KiB by a block",
                  microseconds_text(floor.word_us), microseconds_text(floor.block_us));
  for (const LinkRate& link : floor.links) {
    text +=
        fmt::format("{} {} GB/s at {}", &link == &floor.links.front() ? "; pushing:" : ",",
                    link.gbps == 0 ? "?" : short_number_text(link.gbps), bytes_text(link.bytes));
  }
  return text;
}

}  // namespace lamppost::bench
