#include "tools/bench/chart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/bench/report.hpp"

namespace lamppost::bench {
namespace {

constexpr double kWidth = 540;
constexpr double kHeight = 340;
constexpr double kLeft = 70;
constexpr double kRight = 480;  // names of the series stand to the right of it
constexpr double kTop = 52;
constexpr double kBottom = 294;
constexpr double kLineHeight = 14;
constexpr std::size_t kMostLabels = 9;
constexpr const char* kGrid = "#e4e8ee";
constexpr const char* kMuted = "#5b6675";

/// One axis: a range of logarithms on a range of pixels.
struct Axis {
  double low = 0, high = 1;  // log10 of the values at both ends
  double from = 0, to = 1;   // their pixels

  double pixel(double value) const {
    return from + (std::log10(value) - low) / (high - low) * (to - from);
  }
};

bool drawable(const ChartPoint& point) { return point.x > 0 && point.y > 0; }

/// Values of an axis at which a grid line stands.
using Ticks = std::vector<double>;

/// Powers of two, at most eight.
Ticks byte_ticks(double lowest, double highest) {
  const int first = static_cast<int>(std::floor(std::log2(lowest)));
  const int last = static_cast<int>(std::ceil(std::log2(highest)));
  const int step = std::max(1, (last - first + 6) / 7);
  Ticks ticks;
  for (int power = first; power <= last; power += step) ticks.push_back(std::exp2(power));
  return ticks;
}

/// 1, 2, 5 times powers of ten within [lowest, highest]; powers of ten alone if that is enough.
Ticks decade_ticks(double lowest, double highest) {
  const bool wide = highest / lowest > 300;
  const std::vector<double> steps = wide ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  Ticks ticks;
  for (int power = static_cast<int>(std::floor(std::log10(lowest)));
       power <= static_cast<int>(std::ceil(std::log10(highest))); ++power) {
    for (const double step : steps) {
      const double tick = step * std::pow(10, power);
      if (tick >= lowest && tick <= highest) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string text(double x, double y, const std::string& attributes, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, content);
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, colour);
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double low_x = std::numeric_limits<double>::infinity(), high_x = 0;
    double low_y = low_x, high_y = 0;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) {
        if (!drawable(point)) continue;
        low_x = std::min(low_x, point.x);
        high_x = std::max(high_x, point.x);
        low_y = std::min(low_y, point.y);
        high_y = std::max(high_y, point.y);
      }
    }
    empty_ = high_x == 0;
    if (empty_) return;
    x_ticks_ = byte_ticks(low_x, high_x);
    // Room for labels; 1.8 and 1.5 together are enough for one tick at least.
    low_y /= std::max(1.8, std::pow(high_y / low_y, 0.12));
    high_y *= 1.5;
    y_ticks_ = decade_ticks(low_y, high_y);
    // A margin of a twentieth, or of a factor of two around a single size.
    const double margin = high_x > low_x ? std::log10(high_x / low_x) * 0.05 : std::log10(2);
    x_ = {std::log10(low_x) - margin, std::log10(high_x) + margin, kLeft, kRight};
    y_ = {std::log10(low_y), std::log10(high_y), kBottom, kTop};
  }

  std::string svg() const {
    std::string out =
        fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" font-size=\"12\">\n",
                    kWidth, kHeight, chart_.title);
    out += text(0, 18, "font-size=\"15\" font-weight=\"600\" fill=\"#1c2430\"", chart_.title);
    out += text(0, 36, fmt::format("fill=\"{}\"", kMuted), chart_.y_title);
    if (empty_) {
      out +=
          text(kWidth / 2, kHeight / 2, fmt::format("text-anchor=\"middle\" fill=\"{}\"", kMuted),
               "no row that a logarithmic plot can show");
      return out + "</svg>\n";
    }
    out += grid();
    if (chart_.shade_between) out += shade();
    for (const ChartSeries& series : chart_.series) out += curve(series);
    for (const ChartSeries& series : chart_.series) out += labels(series);
    return out + names() + "</svg>\n";
  }

 private:
  std::string grid() const {
    std::string out;
    for (const double tick : y_ticks_) {
      const double y = y_.pixel(tick);
      out += line(kLeft, y, kRight, y, kGrid);
      out += text(kLeft - 8, y + 4, fmt::format("text-anchor=\"end\" fill=\"{}\"", kMuted),
                  short_number_text(tick));
    }
    for (const double tick : x_ticks_) {
      const double x = x_.pixel(tick);
      if (x < kLeft || x > kRight) continue;
      out += line(x, kBottom, x, kBottom + 5, "#9aa4b2");
      out += text(x, kBottom + 20, fmt::format("text-anchor=\"middle\" fill=\"{}\"", kMuted),
                  bytes_text(static_cast<std::uint64_t>(tick)));
    }
    out += line(kLeft, kBottom, kRight, kBottom, "#9aa4b2");
    return out + text((kLeft + kRight) / 2, kBottom + 40,
                      fmt::format("text-anchor=\"middle\" fill=\"{}\"", kMuted), "message size");
  }

  std::string shade() const {
    std::string points;
    const auto add = [&](const ChartPoint& point) {
      if (drawable(point)) points += place(point) + " ";
    };
    const auto& lower = chart_.series[0].points;
    const auto& upper = chart_.series[1].points;
    std::for_each(lower.begin(), lower.end(), add);
    std::for_each(upper.rbegin(), upper.rend(), add);
    return fmt::format("<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"0.10\"/>\n", points,
                       chart_.series[1].colour);
  }

  std::string curve(const ChartSeries& series) const {
    std::string points;
    std::string marks;
    for (const ChartPoint& point : series.points) {
      if (!drawable(point)) continue;
      points += place(point) + " ";
      marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                           x_.pixel(point.x), y_.pixel(point.y), series.colour);
    }
    return fmt::format(
               "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
               points, series.colour, series.dashed ? " stroke-dasharray=\"5 4\"" : "") +
           marks;
  }

  /// The values of a series beside its points, on the side that its line leaves free.
  std::string labels(const ChartSeries& series) const {
    std::string out;
    if (!series.labelled || series.points.size() > kMostLabels) return out;
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const ChartPoint& point = series.points[i];
      if (!drawable(point)) continue;
      const bool falls = i + 1 < series.points.size() && series.points[i + 1].y < point.y;
      out += text(x_.pixel(point.x) + 5, y_.pixel(point.y) + (falls ? -6 : 17),
                  fmt::format("font-size=\"11\" fill=\"{}\" stroke=\"#fff\" stroke-width=\"3\" "
                              "paint-order=\"stroke\"",
                              series.colour),
                  short_number_text(point.y));
    }
    return out;
  }

  /// The series' names at the ends of their lines, moved up where they would overlap.
  std::string names() const {
    std::vector<std::pair<double, const ChartSeries*>> places;  // pixel, series
    for (const ChartSeries& series : chart_.series) {
      const auto last = std::find_if(series.points.rbegin(), series.points.rend(), drawable);
      if (last != series.points.rend()) places.emplace_back(y_.pixel(last->y) + 4, &series);
    }
    std::sort(places.rbegin(), places.rend());  // the lowest first
    std::string out;
    double next_free = kHeight;
    for (const auto& [wanted, series] : places) {
      const double y = std::min(wanted, next_free);
      out += text(kRight + 8, y, fmt::format("font-weight=\"600\" fill=\"{}\"", series->colour),
                  series->name);
      next_free = y - kLineHeight;
    }
    return out;
  }

  std::string place(const ChartPoint& point) const {
    return fmt::format("{:.1f},{:.1f}", x_.pixel(point.x), y_.pixel(point.y));
  }

  const Chart& chart_;
  bool empty_ = true;
  Ticks x_ticks_, y_ticks_;
  Axis x_, y_;
};

}  // namespace

std::string draw_chart(const Chart& chart) { return Drawing(chart).svg(); }

}  // namespace lamppost::bench
