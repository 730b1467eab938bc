#include "worker/shell/metrics.h"

#include <dirent.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "worker/shell/spiller.h"

namespace worker {

using protocol::MessageWriter;

namespace {

std::uint64_t open_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  std::uint64_t count = 0;
  while (::readdir(folder)) ++count;
  ::closedir(folder);
  return count > 3 ? count - 3 : 0;  // ".", ".." and the folder itself
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void entry(MessageWriter& writer, std::string_view name, std::uint64_t value) {
  writer.str(name);
  writer.uinteger(value);
}

void write_task_counts(MessageWriter& writer, const Core& core) {
  std::vector<TaskState> present;
  for (std::size_t i = 0; i < kTaskStates; ++i) {
    const auto state = static_cast<TaskState>(i);
    if (core.count(state) > 0) present.push_back(state);
  }
  writer.map(static_cast<std::uint32_t>(present.size()));
  for (const TaskState state : present) entry(writer, task_state_name(state), core.count(state));
}

void write_transfer(MessageWriter& writer, const MetricsSources& from) {
  writer.map(6);
  entry(writer, "incoming_bytes", from.core.transfer_incoming_bytes());
  entry(writer, "incoming_count", from.core.transfer_incoming_count());
  entry(writer, "incoming_count_total", from.core.transfer_incoming_count_total());
  entry(writer, "outgoing_bytes", from.server.outgoing_bytes());
  entry(writer, "outgoing_count", from.server.outgoing_count());
  entry(writer, "outgoing_count_total", from.server.outgoing_count_total());
}

void write_zero_rates(MessageWriter& writer) {
  writer.map(2);
  writer.str("read_bps");
  writer.real(0);
  writer.str("write_bps");
  writer.real(0);
}

}  // namespace

ProcessGauge::Reading ProcessGauge::read(protocol::Now now) {
  const double cpu = cpu_seconds();
  const double wall = now.mono.as_seconds();
  const double passed = wall - last_wall_;
  Reading reading{0, resident_bytes(), open_descriptors()};
  if (last_wall_ > 0 && passed > 0) reading.cpu_percent = 100 * (cpu - last_cpu_) / passed;
  last_cpu_ = cpu;
  last_wall_ = wall;
  return reading;
}

void write_metrics(MessageWriter& writer, const MetricsSources& from,
                   const ProcessGauge::Reading& process, protocol::Now now) {
  writer.map(13);
  writer.str("task_counts");
  write_task_counts(writer, from.core);
  writer.str("bandwidth");
  writer.map(3);
  writer.str("total");
  writer.real(from.fetcher.bandwidth());
  writer.str("workers");
  writer.map(0);
  writer.str("types");
  writer.map(0);
  writer.str("digests_total_since_heartbeat");
  writer.map(0);
  entry(writer, "managed_bytes", from.core.nbytes());
  writer.str("spilled_bytes");
  writer.map(2);
  entry(writer, "memory", from.store.slow_bytes());
  entry(writer, "disk", from.store.disk_bytes());
  writer.str("transfer");
  write_transfer(writer, from);
  writer.str("event_loop_interval");
  writer.real(0.02);
  writer.str("cpu");
  writer.real(process.cpu_percent);
  entry(writer, "memory", process.memory);
  writer.str("time");
  writer.real(now.wall);
  writer.str("host_net_io");
  write_zero_rates(writer);
  writer.str("host_disk_io");
  write_zero_rates(writer);
  entry(writer, "num_fds", process.descriptors);
}

}  // namespace worker
