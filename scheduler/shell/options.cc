//! Parsing of the command line; see options.h.
#include "scheduler/shell/options.h"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <utility>

namespace scheduler {
namespace {

using protocol::Done;
using protocol::Error;
using protocol::Fault;
using protocol::Result;
using protocol::Status;

Status set_port(Options& options, std::string_view value) {
  std::uint16_t port = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), port);
  if (code != std::errc() || end != value.data() + value.size()) {
    return Error{Fault::bad_type, "--port: '" + std::string(value) + "' is not a port number"};
  }
  options.port = port;
  return Done{};
}

Status set_idle_timeout(Options& options, std::string_view value) {
  const auto seconds = parse_seconds(value);
  if (!seconds) return Error{Fault::bad_type, "--idle-timeout: " + seconds.error().where};
  options.idle_timeout = *seconds;
  return Done{};
}

struct Known {
  std::string_view name;
  bool takes_value;
  Status (*set)(Options&, std::string_view);
  std::string_view help;
};

template <std::string Options::*member>
Status set_text(Options& options, std::string_view value) {
  options.*member = value;
  return Done{};
}

Status set_nothing(Options&, std::string_view) { return Done{}; }

const Known kOptions[] = {
    {"--host", true, set_text<&Options::host>, "URI, IP or hostname to listen on"},
    {"--port", true, set_port, "port to listen on; 0 takes a free one (8786)"},
    {"--interface", true, set_text<&Options::interface>, "network interface like 'eth0' or 'ib0'"},
    {"--protocol", true, set_text<&Options::protocol>, "protocol: tcp"},
    {"--scheduler-file", true, set_text<&Options::scheduler_file>,
     "file to write connection information to"},
    {"--pid-file", true, set_text<&Options::pid_file>, "file to write the process id to"},
    {"--idle-timeout", true, set_idle_timeout, "stop after this time without work, like '1h'"},
    {"--config", true, set_text<&Options::config_file>, "msgpack map of resolved configuration"},
    {"--python", true, set_text<&Options::python>, "interpreter of the graph processes"},
    {"--dashboard-address", true, nullptr, "address of the HTTP server"},
    {"--dashboard-prefix", true, nullptr, "prefix of all HTTP routes"},
    {"--dashboard", false, set_nothing, "serve the dashboard pages"},
    {"--no-dashboard", false, set_nothing, "do not serve the dashboard pages"},
    {"--preload", true, nullptr, "module to load in the host process"},
    {"--jupyter", false, nullptr, "start a Jupyter server"},
    {"--no-jupyter", false, set_nothing, "do not start a Jupyter server"},
    {"--show", false, set_nothing, "ignored, as in dask scheduler"},
    {"--no-show", false, set_nothing, "ignored, as in dask scheduler"},
    {"--use-xheaders", true, set_nothing, "ignored, as in dask scheduler"},
    {"--tls-ca-file", true, nullptr, "not supported: encryption"},
    {"--tls-cert", true, nullptr, "not supported: encryption"},
    {"--tls-key", true, nullptr, "not supported: encryption"},
};

const Known* find_option(std::string_view name) {
  for (const Known& known : kOptions) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

Status apply(Options& options, const Known& known, std::string_view value) {
  if (known.name.starts_with("--tls-")) {
    return Error{Fault::bad_type, std::string(known.name) +
                                      ": encryption is not supported yet, and a scheduler that was "
                                      "asked for it does not start without"};
  }
  if (known.set == nullptr) {
    options.later.emplace_back(known.name);
    return Done{};
  }
  return known.set(options, value);
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string_view name = arguments[i];
    if (name == "--help" || name == "--version") {
      (name == "--help" ? options.show_help : options.show_version) = true;
      continue;
    }
    std::optional<std::string_view> value;
    if (const auto equals = name.find('='); equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const Known* known = find_option(name);
    if (known == nullptr) return Error{Fault::bad_type, "no such option: " + arguments[i]};
    if (known->takes_value && !value) {
      if (++i == arguments.size()) {
        return Error{Fault::bad_type, "option " + std::string(name) + " needs a value"};
      }
      value = arguments[i];
    }
    if (auto applied = apply(options, *known, value.value_or("")); !applied) return applied.error();
  }
  return options;
}

Result<double> parse_seconds(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str()) number = 1;  // "hour" means one of them
  std::string_view unit = std::string_view(copy).substr(static_cast<std::size_t>(end - copy.c_str()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  while (!unit.empty() && unit.back() == ' ') unit.remove_suffix(1);
  if (unit.size() > 2 && unit.back() == 's') unit.remove_suffix(1);
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},          {"s", 1},        {"second", 1},       {"ms", 1e-3}, {"millisecond", 1e-3},
      {"us", 1e-6},     {"ns", 1e-9},    {"microsecond", 1e-6}, {"m", 60},  {"minute", 60},
      {"min", 60},      {"h", 3600},     {"hour", 3600},      {"hr", 3600}, {"d", 86400},
      {"day", 86400},   {"w", 604800},   {"week", 604800}};
  for (const auto& [name, scale] : kUnits) {
    if (unit == name) return number * scale;
  }
  return Error{Fault::bad_type, "'" + copy + "' is not a duration"};
}

std::string help_text() {
  std::string out = "Usage: rask-scheduler [OPTIONS]\n\n  The native scheduler for Dask.\n\nOptions:\n";
  for (const Known& known : kOptions) {
    std::string line = "  " + std::string(known.name) + (known.takes_value ? " VALUE" : "");
    line.resize(std::max<std::size_t>(line.size() + 2, 30), ' ');
    out += line + std::string(known.help) + "\n";
  }
  return out + "  --version                   show the version and exit\n"
               "  --help                      show this text and exit\n";
}

}  // namespace scheduler
