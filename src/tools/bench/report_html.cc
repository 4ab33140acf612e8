// The report as one HTML file: no scripts, nothing loaded from elsewhere, readable when printed.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <lamppost/types.hpp>

#include "tools/bench/chart.hpp"
#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

constexpr const char* kP50Colour = "#1f5fa8";
constexpr const char* kP99Colour = "#c2570c";
constexpr const char* kAlgbwColour = "#0f766e";
constexpr const char* kBusbwColour = "#6d4fa3";
constexpr const char* kDeviceColour = "#3b8fd9";
constexpr const char* kFloorColour = "#5b6675";
constexpr const char* kNcclColour = "#4d7c0f";
constexpr const char* kSymmetricColour = "#a16207";

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: #1c2430;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1160px; margin: 0 auto; padding: 32px 24px 48px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 16px; margin: 0 0 8px; }
.lead { color: #5b6675; margin: 0 0 20px; }
.verdict { border-radius: 8px; padding: 12px 16px; margin: 0 0 20px; font-weight: 600; }
.ok { background: #e3f4ea; color: #14532d; border: 1px solid #b5dfc5; }
.bad { background: #fde8e6; color: #7f1d1d; border: 1px solid #f3b9b3; }
.plain { background: #eef1f5; color: #3d4856; border: 1px solid #d9dfe7; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 16px;
  margin: 0 0 16px; }
.tile, section { background: #fff; border: 1px solid #e1e6ed; border-radius: 8px; }
.tile { padding: 12px 16px; }
.tile b { display: block; font-size: 24px; line-height: 1.3; font-weight: 600; }
.tile span { color: #5b6675; font-size: 13px; }
section { padding: 20px; margin: 0 0 16px; }
.pair { display: grid; grid-template-columns: repeat(auto-fill, minmax(440px, 1fr)); gap: 32px; }
svg { width: 100%; height: auto; display: block; font-family: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { font-size: 13px; font-weight: 600; color: #5b6675; text-align: right; vertical-align: bottom;
  padding: 4px 10px 8px; border-bottom: 2px solid #d9dfe7; }
th small { display: block; font-weight: 400; }
td { text-align: right; padding: 6px 10px; border-bottom: 1px solid #edf0f4; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
td.right { color: #14532d; }
tr.wrong td { background: #fde8e6; color: #7f1d1d; font-weight: 600; border: 0; }
tr.wrong td:first-child { padding-left: 8px; }
tr.detail td { text-align: left; font-weight: 400; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 0; }
dt { color: #5b6675; }
dd { margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 12px; }
code { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media print { body { background: #fff; } section, .tile { break-inside: avoid; } }
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool measured(const RowResult& result) { return result.failures.empty(); }

/// microseconds_text with thousands apart.
std::string time_text(double us) {
  return us < 1000 ? microseconds_text(us)
                   : grouped_text(static_cast<std::uint64_t>(std::round(us)));
}

/// The same decimals for a whole column, four significant digits for its largest value.
std::string bandwidth_text(const Report& report, double gbps) {
  double largest = 0;
  for (const RowResult& result : report.rows) largest = std::max(largest, result.busbw_gbps);
  const int decimals = largest < 1 ? 4 : largest < 10 ? 3 : largest < 100 ? 2 : 1;
  return fmt::format("{:.{}f}", gbps, decimals);
}

std::string tile(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", value, what);
}

std::string tiles(const Report& report) {
  const RowResult* smallest = nullptr;
  const RowResult* best = nullptr;
  std::uint64_t elements = 0;
  for (const RowResult& result : report.rows) {
    if (!measured(result)) continue;
    if (smallest == nullptr || smallest->row.bytes == 0) smallest = &result;
    if (best == nullptr || result.busbw_gbps > best->busbw_gbps) best = &result;
    elements += result.row.elements * static_cast<std::uint64_t>(report.rank_count()) *
                (report.fused() ? 2 : 1);
  }
  if (smallest == nullptr) return {};
  const std::string size = bytes_text(smallest->row.bytes);
  std::string checked = "none";
  if (report.options.check == Check::kOn) {
    checked = elements < 1'000'000
                  ? grouped_text(elements)
                  : fmt::format("{:.3g} million", static_cast<double>(elements) * 1e-6);
  }
  return "<div class=\"tiles\">\n" +
         tile(time_text(smallest->time.p50_us) + " µs", "median at " + size) +
         tile(time_text(smallest->time.p99_us) + " µs", "99th percentile at " + size) +
         (report.has_collectives() ? tile(short_number_text(best->busbw_gbps) + " GB/s",
                                          "best bus bandwidth, at " + bytes_text(best->row.bytes)) +
                                         tile(checked, "output elements checked")
                                   : "") +
         "</div>\n";
}

template <class Value>
ChartSeries series_of(const Report& report, const char* name, const char* colour, Value value) {
  ChartSeries series;
  series.name = name;
  series.colour = colour;
  for (const RowResult& result : report.rows) {
    if (!measured(result)) continue;
    series.points.push_back({static_cast<double>(result.row.bytes), value(result)});
  }
  return series;
}

ChartSeries dashed(ChartSeries series) {
  series.dashed = true;
  return series;
}

Chart latency_chart(const Report& report) {
  Chart chart{"Latency", "microseconds a call, slowest rank", {}, true};
  chart.series.push_back(
      series_of(report, "p50", kP50Colour, [](const RowResult& r) { return r.time.p50_us; }));
  chart.series.push_back(
      series_of(report, "p99", kP99Colour, [](const RowResult& r) { return r.time.p99_us; }));
  chart.series[0].labelled = true;
  if (!report.has_collectives()) return chart;
  chart.series.push_back(dashed(series_of(report, "device", kDeviceColour,
                                          [](const RowResult& r) { return r.device.p50_us; })));
  if (report.floor.is_measured) {
    chart.series.push_back(dashed(
        series_of(report, "floor", kFloorColour, [](const RowResult& r) { return r.floor_us; })));
  }
  if (report.options.compare == Comparison::kNccl) {
    chart.series.push_back(
        series_of(report, "NCCL", kNcclColour, [](const RowResult& r) { return r.nccl.p50_us; }));
    chart.series.push_back(series_of(report, "NCCL sym", kSymmetricColour,
                                     [](const RowResult& r) { return r.nccl_symmetric.p50_us; }));
  }
  return chart;
}

/// Bytes by another time than ours.
double gbps_at(const RowResult& result, const TimeStats& time) {
  return time.samples_us.empty() ? 0 : static_cast<double>(result.row.bytes) * 1e-3 / time.p50_us;
}

Chart bandwidth_chart(const Report& report) {
  Chart chart{"Bandwidth", "GB/s at the median time", {}, false};
  chart.series.push_back(
      series_of(report, "algbw", kAlgbwColour, [](const RowResult& r) { return r.algbw_gbps; }));
  chart.series.push_back(dashed(
      series_of(report, "busbw", kBusbwColour, [](const RowResult& r) { return r.busbw_gbps; })));
  chart.series[0].labelled = true;
  if (report.options.compare == Comparison::kNccl) {
    chart.series.push_back(series_of(report, "NCCL", kNcclColour,
                                     [](const RowResult& r) { return gbps_at(r, r.nccl); }));
    chart.series.push_back(series_of(report, "NCCL sym", kSymmetricColour, [](const RowResult& r) {
      return gbps_at(r, r.nccl_symmetric);
    }));
  }
  return chart;
}

/// What the times are compared with; empty without --floor and --compare.
std::string ratio_charts(const Report& report) {
  std::string out;
  if (report.floor.is_measured) {
    Chart chart{"Above the floor", "time / floor", {}, false};
    chart.series.push_back(
        series_of(report, "time", kP50Colour, [](const RowResult& r) { return r.over_floor(); }));
    chart.series[0].labelled = true;
    out += draw_chart(chart);
  }
  if (report.options.compare == Comparison::kNccl) {
    Chart chart{"Beside NCCL", "NCCL's time / ours", {}, false};
    chart.series.push_back(
        series_of(report, "NCCL", kNcclColour, [](const RowResult& r) { return r.ratio(r.nccl); }));
    chart.series.push_back(series_of(report, "NCCL sym", kSymmetricColour,
                                     [](const RowResult& r) { return r.ratio(r.nccl_symmetric); }));
    chart.series[0].labelled = true;
    out += draw_chart(chart);
  }
  return out.empty() ? out : "<section class=\"pair\">\n" + out + "</section>\n";
}

std::string charts(const Report& report) {
  if (report.options.operation == Operation::kInit) return {};
  std::string out = "<section class=\"pair\">\n" + draw_chart(latency_chart(report));
  if (report.has_collectives()) out += draw_chart(bandwidth_chart(report));
  return out + "</section>\n" + ratio_charts(report);
}

std::string table_row(const Report& report, const RowResult& result) {
  const std::uint64_t amount =
      report.fused() ? static_cast<std::uint64_t>(result.row.tokens) : result.row.elements;
  std::string cells =
      fmt::format("<td>{}</td><td>{}</td>", bytes_text(result.row.bytes), grouped_text(amount));
  const std::vector<Column> columns = time_columns(report);
  const std::size_t others = columns.size() + (report.has_collectives() ? 3 : 0);
  if (!measured(result)) {
    std::string out =
        fmt::format("<tr class=\"wrong\">{}<td colspan=\"{}\">failed</td></tr>\n", cells, others);
    for (const RankFailure& failure : result.failures) {
      out +=
          fmt::format("<tr class=\"wrong detail\"><td colspan=\"{}\">rank {}: {}\n{}</td></tr>\n",
                      others + 2, failure.rank, escaped(failure.sentence), escaped(failure.health));
    }
    return out;
  }
  const bool check = report.options.check == Check::kOn;
  const bool bad = result.wrong.total() != 0;
  for (const Column& column : columns) cells += "<td>" + column.text(result) + "</td>";
  if (report.has_collectives()) {
    cells += fmt::format("<td>{}</td><td>{}</td><td class=\"right\">{}</td>",
                         bandwidth_text(report, result.algbw_gbps),
                         bandwidth_text(report, result.busbw_gbps),
                         check ? grouped_text(result.wrong.total()) : "not checked");
  }
  std::string out = fmt::format("<tr{}>{}</tr>\n", bad ? " class=\"wrong\"" : "", cells);
  if (bad) {
    out += fmt::format("<tr class=\"wrong detail\"><td colspan=\"{}\">{}</td></tr>\n", others + 2,
                       wrong_text(result.wrong));
  }
  return out;
}

std::string table(const Report& report) {
  std::string out = fmt::format("<section class=\"scroll\"><table>\n<tr><th>size</th><th>{}</th>",
                                report.fused() ? "tokens" : "count");
  for (const Column& column : time_columns(report)) {
    const std::string unit = column.unit == std::string("us") ? "µs" : column.unit;
    out += fmt::format("<th>{}<small>{}</small></th>", column.title, unit);
  }
  if (report.has_collectives()) {
    out +=
        "<th>algbw<small>GB/s</small></th><th>busbw<small>GB/s</small></th>"
        "<th>wrong<small>elements</small></th>";
  }
  out += "</tr>\n";
  for (const RowResult& result : report.rows) out += table_row(report, result);
  return out + "</table></section>\n";
}

std::string fact(const std::string& name, const std::string& value) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escaped(value));
}

std::string facts(const Report& report) {
  const RunFacts& facts = report.facts;
  std::string out = "<div><h2>Where</h2><dl>\n";
  for (const std::string& place : describe_places(facts.places)) {
    const std::size_t colon = place.find(": ");
    out += fact(place.substr(0, colon), place.substr(colon + 2));
  }
  out += fact("processor", facts.cpu_model);
  out += fact("memory", bytes_text(facts.memory_bytes));
  out += fact("system", facts.kernel);
  out += fact("lamppost",
              fmt::format("{}, {} backend, {}", facts.version, facts.backend, facts.compiler));
  out += fmt::format("<dt>command</dt><dd><code>{}</code></dd>\n",
                     escaped(report.options.command_line));
  return out + "</dl></div>\n";
}

std::string methods(const Report& report) {
  std::string out =
      fmt::format("<div><h2>How it was measured</h2><p>{}</p>", report.facts.how_measured);
  if (report.has_collectives()) {
    out +=
        fmt::format("<p>algbw is bytes by time; busbw is algbw * 2 (n - 1) / n, n = {} ranks.</p>",
                    report.rank_count());
  }
  if (report.floor.is_measured) {
    out += fmt::format(
        "<h2>The floor</h2><p>A row's floor is one launch, one message and its bytes over one "
        "link. "
        "On this machine {}.</p>",
        floor_sentence(report));
  }
  return out +
         fmt::format("<h2>How it was checked</h2><p>{}</p></div>\n", report.facts.how_checked);
}

std::string verdict_banner(const Report& report) {
  const bool ok = report.exit_code() == kSuccess;
  const char* style = !ok ? "bad" : report.options.check == Check::kOn ? "ok" : "plain";
  const char* mark = !ok ? "✗ " : report.options.check == Check::kOn ? "✓ " : "";
  return fmt::format("<p class=\"verdict {}\">{}{}</p>\n", style, mark, escaped(report.verdict()));
}

}  // namespace

Status write_html(const Report& report, const std::string& path) {
  const Options& options = report.options;
  const std::string title =
      fmt::format("{}, {}, {} rank{}", operation_name(options.operation), type_name(options.type),
                  report.rank_count(), report.rank_count() == 1 ? "" : "s");
  const std::string lead = fmt::format(
      "{}{}, {}, {} backend · {} · {}",
      report.fused() ? fmt::format("hidden {}, ", options.hidden) : "", mode_name(options.mode),
      options.placement == Placement::kInPlace ? "in place" : "out of place", report.facts.backend,
      report.facts.placement, report.facts.started_at);
  return write_file(
      fmt::format("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<meta name=\"viewport\" content=\"width=device-width\">"
                  "<title>lamppost-bench: {0}</title><style>{1}</style></head>\n<body><main>\n"
                  "<h1>{0}</h1>\n<p class=\"lead\">{2}</p>\n",
                  title, kStyle, escaped(lead)) +
          verdict_banner(report) + tiles(report) + charts(report) + table(report) +
          "<section class=\"pair\">\n" + methods(report) + facts(report) +
          "</section>\n</main></body></html>\n",
      path);
}

}  // namespace lamppost::bench
