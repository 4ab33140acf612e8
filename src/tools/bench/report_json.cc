// Everything a run knows, as JSON: the facts, and each row with all its samples.
#include <lamppost/types.hpp>
#include <nlohmann/json.hpp>

#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

using Json = nlohmann::ordered_json;

/// Changes when a field changes its name or meaning; new fields do not count.
constexpr const char* kSchema = "lamppost-bench/1";

Json options_json(const Options& options) {
  return Json{{"command_line", options.command_line},
              {"operation", operation_name(options.operation)},
              {"type", type_name(options.type)},
              {"mode", mode_name(options.mode)},
              {"in_place", options.placement == Placement::kInPlace},
              {"check", options.check == Check::kOn},
              {"hidden", options.hidden},
              {"iterations", options.iterations},
              {"batches", options.batches},
              {"warmup", options.warmup},
              {"warmup_ms", options.warmup_ms},
              {"rotate_sets", options.rotate_sets},
              {"share_devices", options.sharing == Sharing::kShared},
              {"early_launch", options.early_launch},
              {"timeout_ms", options.timeout_ms},
              {"slot_bytes", options.slot_bytes},
              {"seed", options.seed}};
}

Json facts_json(const RunFacts& facts) {
  Json ranks = Json::array();
  for (const RankPlace& place : facts.places) {
    ranks.push_back({{"host", place.host}, {"pid", place.pid}, {"cpus", place.cpu_count}});
  }
  return Json{{"version", facts.version},
              {"backend", facts.backend},
              {"started_at", facts.started_at},
              {"placement", facts.placement},
              {"ranks", ranks},
              {"cpu_model", facts.cpu_model},
              {"kernel", facts.kernel},
              {"memory_bytes", facts.memory_bytes},
              {"compiler", facts.compiler},
              {"how_measured", facts.how_measured},
              {"how_checked", facts.how_checked}};
}

Json time_json(const TimeStats& time) {
  return Json{{"avg", time.avg_us},   {"p50", time.p50_us},        {"p99", time.p99_us},
              {"min", time.min_us},   {"max", time.max_us},        {"skew", time.skew_us},
              {"host", time.host_us}, {"samples", time.samples_us}};
}

Json device_json(const DeviceTimes& device) {
  return Json{{"p50", device.p50_us},
              {"p99", device.p99_us},
              {"skew", device.skew_us},
              {"samples", device.samples_us}};
}

Json floor_json(const Floor& floor) {
  Json links = Json::array();
  for (const LinkRate& link : floor.links) {
    links.push_back({{"bytes", link.bytes}, {"gbps", link.gbps}});
  }
  return Json{{"one_way_word_us", floor.word_us},
              {"one_way_block_us", floor.block_us},
              {"graph_node_us", floor.graph_node_us},
              {"eager_launch_us", floor.eager_launch_us},
              {"links", links}};
}

/// What a row has only if it was asked for.
void add_extras(const RowResult& result, Json& row) {
  if (result.floor_us != 0) {
    row["floor_us"] = result.floor_us;
    row["time_over_floor"] = result.over_floor();
  }
  if (!result.nccl.samples_us.empty()) {
    row["nccl_time_us"] = time_json(result.nccl);
    row["nccl_over_ours"] = result.ratio(result.nccl);
  }
  if (!result.nccl_symmetric.samples_us.empty()) {
    row["nccl_symmetric_time_us"] = time_json(result.nccl_symmetric);
    row["nccl_symmetric_over_ours"] = result.ratio(result.nccl_symmetric);
  }
  if (!result.destroy.samples_us.empty()) row["destroy_time_us"] = time_json(result.destroy);
}

Json row_json(const Report& report, const RowResult& result) {
  Json row{{"bytes", result.row.bytes}, {"elements", result.row.elements}};
  if (report.fused()) {
    row["tokens"] = result.row.tokens;
    row["hidden"] = result.row.hidden;
  }
  if (!result.failures.empty()) {
    row["failures"] = Json::array();
    for (const RankFailure& failure : result.failures) {
      row["failures"].push_back(
          {{"rank", failure.rank}, {"error", failure.sentence}, {"health", failure.health}});
    }
    return row;
  }
  row["time_us"] = time_json(result.time);
  add_extras(result, row);
  if (!report.has_collectives()) return row;
  row["device_time_us"] = device_json(result.device);
  row["buffer_sets"] = result.rotation.sets;
  row["cache"] = cache_state_name(result.rotation.cache);
  row["algbw_gbps"] = result.algbw_gbps;
  row["busbw_gbps"] = result.busbw_gbps;
  if (report.options.check == Check::kOn) {
    row["wrong"] = {{"total", result.wrong.total()},
                    {"beyond_bound", result.wrong.beyond_bound},
                    {"differ_by_rank", result.wrong.differ_by_rank},
                    {"changed_later", result.wrong.changed_later},
                    {"guard_bytes", result.wrong.guard_bytes}};
  }
  return row;
}

}  // namespace

Status write_json(const Report& report, const std::string& path) {
  Json rows = Json::array();
  for (const RowResult& result : report.rows) rows.push_back(row_json(report, result));
  Json json{{"schema", kSchema},
            {"facts", facts_json(report.facts)},
            {"options", options_json(report.options)},
            {"rows", rows},
            {"verdict", report.verdict()},
            {"exit_code", static_cast<int>(report.exit_code())}};
  if (report.floor.is_measured) json["floor"] = floor_json(report.floor);
  // A host name need not be UTF-8.
  return write_file(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", path);
}

}  // namespace lamppost::bench
