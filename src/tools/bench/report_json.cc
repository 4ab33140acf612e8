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
  return Json{{"avg", time.avg_us},        {"p50", time.p50_us}, {"p99", time.p99_us},
              {"min", time.min_us},        {"max", time.max_us}, {"skew", time.skew_us},
              {"samples", time.samples_us}};
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
  const Json json{{"schema", kSchema},
                  {"facts", facts_json(report.facts)},
                  {"options", options_json(report.options)},
                  {"rows", rows},
                  {"verdict", report.verdict()},
                  {"exit_code", static_cast<int>(report.exit_code())}};
  // A host name need not be UTF-8.
  return write_file(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", path);
}

}  // namespace lamppost::bench
