//! Comparing versions and printing the table of stock; see versions.h.
#include "scheduler/shell/versions.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace scheduler {
namespace {

using Row = std::array<std::string, 4>;

//! Differences of other packages between a client and the scheduler do no harm.
bool scheduler_must_match(std::string_view package) {
  static constexpr std::string_view kRelevant[] = {"dask",    "distributed", "cloudpickle", "lz4",
                                                   "msgpack", "tornado",     "toolz",       "python"};
  return std::find(std::begin(kRelevant), std::end(kRelevant), package) != std::end(kRelevant);
}

std::string version_in(const Packages& packages, const std::string& name) {
  const auto found = packages.find(name);
  if (found == packages.end()) return "MISSING";
  return found->second.value_or("None");
}

std::string set_text(const std::set<std::string>& versions) {
  if (versions.empty()) return "None";
  if (versions.size() == 1) return *versions.begin();
  std::string out = "{";
  for (const std::string& version : versions) {
    out += (out.size() > 1 ? ", " : "") + (version == "None" ? version : "'" + version + "'");
  }
  return out + "}";
}

std::string line_of(const Row& row, const std::array<std::size_t, 4>& widths) {
  std::string out = "|";
  for (std::size_t i = 0; i < row.size(); ++i) {
    out += " " + row[i] + std::string(widths[i] - row[i].size(), ' ') + " |";
  }
  return out;
}

std::string table(const Row& header, const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths;
  std::string bar = "+";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    widths[i] = header[i].size();
    for (const Row& row : rows) widths[i] = std::max(widths[i], row[i].size());
    bar += std::string(widths[i] + 2, '-') + "+";
  }
  std::string out = bar + "\n" + line_of(header, widths) + "\n" + bar + "\n";
  for (const Row& row : rows) out += line_of(row, widths) + "\n";
  return out + bar;
}

}  // namespace

std::optional<Packages> parse_packages(protocol::Value versions) {
  const protocol::Value packages = versions.find("packages");
  if (!packages.is_map()) return std::nullopt;
  Packages out;
  for (const auto [name, version] : packages.entries()) {
    if (!name.is_str()) continue;
    std::optional<std::string> text;
    if (const auto spelled = version.as_str()) text = *spelled;
    out.emplace(*name.as_str(), std::move(text));
  }
  return out;
}

std::string mismatch_warning(const std::optional<Packages>& scheduler,
                             const std::vector<const Packages*>& workers,
                             const std::optional<Packages>& source, std::string source_name) {
  if (!source) return {};
  std::set<std::string> names;
  for (const auto& [name, version] : *source) names.insert(name);
  if (scheduler) {
    for (const auto& [name, version] : *scheduler) names.insert(name);
  }
  for (const Packages* worker : workers) {
    for (const auto& [name, version] : *worker) names.insert(name);
  }
  std::vector<Row> rows;
  for (const std::string& name : names) {
    const std::string ours = scheduler ? version_in(*scheduler, name) : "UNKNOWN";
    const std::string theirs = version_in(*source, name);
    std::set<std::string> of_workers;
    for (const Packages* worker : workers) of_workers.insert(version_in(*worker, name));
    std::set<std::string> all = of_workers;
    all.insert(theirs);
    if (scheduler && scheduler_must_match(name)) all.insert(ours);
    if (all.size() > 1) rows.push_back({name, theirs, ours, set_text(of_workers)});
  }
  if (rows.empty()) return {};
  return "Mismatched versions found\n\n" +
         table({"Package", std::move(source_name), "Scheduler", "Workers"}, rows);
}

}  // namespace scheduler
