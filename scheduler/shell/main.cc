//! rask-scheduler: options, signals, files, and the loop.
//!
//! Answers to: distributed/cli/dask_scheduler.py, main.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>

#include "protocol/net/address.h"
#include "protocol/net/loop.h"
#include "scheduler/shell/identity.h"
#include "scheduler/shell/options.h"
#include "scheduler/shell/server.h"

namespace {

using scheduler::Log;
using scheduler::Options;

constexpr const char* kRule = "-----------------------------------------------";

//! A file that is there as long as the process runs well.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, const std::string& content) : path_(std::move(path)) {
    if (!path_.empty()) std::ofstream(path_) << content;
  }
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::string path_;
};

//! Ends the server on SIGINT and SIGTERM; a second signal is the user's impatience.
class Signals {
 public:
  Signals(protocol::Loop& loop, scheduler::Server& server) : server_(server) {
    for (auto& [handle, number] : handles_) {
      uv_signal_init(loop.uv(), &handle);
      handle.data = this;
      uv_signal_start(
          &handle,
          [](uv_signal_t* signal, int received) {
            static_cast<Signals*>(signal->data)->on_signal(received);
          },
          number);
      uv_unref(reinterpret_cast<uv_handle_t*>(&handle));
    }
  }
  ~Signals() {
    for (auto& [handle, number] : handles_) {
      uv_close(reinterpret_cast<uv_handle_t*>(&handle), nullptr);
    }
  }

 private:
  void on_signal(int number) {
    if (server_.closing()) ::_exit(128 + number);
    server_.log.write(
        Log::Level::info, "distributed._signals",
        fmt::format("Received signal {} ({})", number == SIGINT ? "SIGINT" : "SIGTERM", number));
    server_.close(fmt::format("signal-{}", number));
  }

  scheduler::Server& server_;
  std::pair<uv_signal_t, int> handles_[2] = {{{}, SIGINT}, {{}, SIGTERM}};
};

void raise_open_file_limit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, limit.rlim_max / 2);
  setrlimit(RLIMIT_NOFILE, &limit);
}

//! Where to listen, by stock's rules: --interface, --host as a name, an IP or a URI, --port.
protocol::Result<protocol::Address> listen_address(const Options& options) {
  auto address = protocol::parse_address(options.host, options.port.value_or(8786));
  if (!address) return address;
  if (options.port) address->port = *options.port;
  if (!options.protocol.empty()) address->scheme = options.protocol;
  if (address->scheme != "tcp") {
    return protocol::Error{protocol::Fault::bad_type,
                           address->scheme + ":// is not supported yet: use tcp://"};
  }
  if (!options.interface.empty()) {
    auto host = protocol::interface_ip(options.interface);
    if (!host) return host.error();
    address->host = *host;
  }
  if (address->host == "localhost") address->host = "127.0.0.1";
  return address;
}

int fail(const std::string& text) {
  fmt::print(stderr, "rask-scheduler: {}\n", text);
  return 2;
}

int serve(const Options& options, const protocol::Address& where, scheduler::Settings settings) {
  if (options.idle_timeout) settings.idle_timeout = *options.idle_timeout;
  const TemporaryFile pid_file(options.pid_file, std::to_string(::getpid()));
  Log log(settings.log_format, settings.log_length);
  log.info(kRule);
  for (const std::string& option : options.later) {
    log.info(option + " is accepted but has no effect yet");
  }
  protocol::Loop loop;
  std::string address;
  {
    scheduler::Server server(loop, log, std::move(settings), options.python);
    log.info("State start");
    log.info(kRule);
    if (auto started = server.start(where.host, where.port); !started) {
      return fail(started.error().text());
    }
    address = server.address;
    const TemporaryFile scheduler_file(options.scheduler_file, scheduler::identity_json(server));
    const Signals signals(loop, server);
    loop.run();
    const auto& turns = loop.turn_stats();
    const auto ms = [](protocol::Duration length) { return length.as_seconds() * 1e3; };
    log.info(fmt::format(
        "Longest turn of the loop: {:.1f} ms, {:.1f} of them at work, {:.1f} for {}; "
        "most work in a turn: {:.1f} ms; {} of {} took more than 50 ms",
        ms(turns.longest.wall), ms(turns.longest.cpu), ms(turns.longest.most.wall),
        turns.longest.most.text(), ms(turns.longest_cpu), turns.over_50_ms, turns.turns));
  }
  log.info("Stopped scheduler at '" + address + "'");
  log.info("End scheduler");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // What the thread pool parses is let go on the loop's thread: one arena, so that it is used
  // again.
  mallopt(M_ARENA_MAX, 1);
  const auto options = scheduler::parse_options({argv + 1, argv + argc});
  if (!options) return fail(options.error().where);
  if (options->show_help) {
    fmt::print("{}", scheduler::help_text());
    return 0;
  }
  if (options->show_version) {
    fmt::print("rask-scheduler, version {}\n", RASK_VERSION);
    return 0;
  }
  raise_open_file_limit();
  scheduler::Settings settings;
  if (!options->config_file.empty()) {
    const auto bytes = scheduler::read_file(options->config_file);
    if (!bytes) return fail(bytes.error().text());
    auto parsed = scheduler::parse_settings(*bytes);
    if (!parsed) return fail("configuration: " + parsed.error().text());
    settings = std::move(*parsed);
  }
  const auto where = listen_address(*options);
  if (!where) return fail(where.error().where);
  return serve(*options, *where, std::move(settings));
}
