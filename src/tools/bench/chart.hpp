// Log-log line charts as SVG text, for the HTML report. Pure.
#pragma once

#include <string>
#include <vector>

namespace lamppost::bench {

struct ChartPoint {
  double x = 0;  // bytes
  double y = 0;
};

struct ChartSeries {
  std::string name;    // written at the line's right end
  std::string colour;  // "#2563a8"
  bool dashed = false;
  bool labelled = false;  // its values are written below its points, if there are few
  std::vector<ChartPoint> points;
};

struct Chart {
  std::string title;
  std::string y_title;  // "microseconds a call"
  std::vector<ChartSeries> series;
  bool shade_between = false;  // the area between the first two series
};

/// An <svg> element that scales to its container. Points that a logarithm cannot show (0 bytes) are
/// left out; without any point the chart says so.
std::string draw_chart(const Chart& chart);

}  // namespace lamppost::bench
