#include "worker/shell/metrics.h"

#include <dirent.h>
#include <sys/resource.h>

#include "worker/shell/spiller.h"

namespace worker {

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

}  // namespace

Slice metrics_map(const protocol::WorkerMetrics& metrics) {
  protocol::MessageWriter writer;
  write(writer, metrics);
  return writer.take_payload()->header;
}

double Gauge::cpu_percent(protocol::Now now) {
  const double cpu = cpu_seconds();
  const double wall = now.mono.as_seconds();
  const double passed = wall - last_wall_;
  const double percent =
      last_wall_ > 0 && passed > 0 ? 100 * (cpu - last_cpu_) / passed : 0;
  last_cpu_ = cpu;
  last_wall_ = wall;
  return percent;
}

protocol::WorkerMetrics Gauge::read(protocol::Now now) {
  protocol::WorkerMetrics out;
  out.cpu = cpu_percent(now);
  out.memory = resident_bytes();
  out.time = now.wall;
  out.num_fds = open_descriptors();
  out.managed_bytes = from_.core.nbytes();
  out.spilled_memory = from_.store.slow_bytes();
  out.spilled_disk = from_.store.disk_bytes();
  out.bandwidth_total = from_.fetcher.bandwidth();
  for (const auto& [peer, rate] : from_.fetcher.rates()) {
    out.bandwidth_workers.emplace_back(peer, rate);
  }
  out.incoming_bytes = from_.core.transfer_incoming_bytes();
  out.incoming_count = from_.core.transfer_incoming_count();
  out.incoming_count_total = from_.core.transfer_incoming_count_total();
  out.outgoing_bytes = from_.server.outgoing_bytes();
  out.outgoing_count = from_.server.outgoing_count();
  out.outgoing_count_total = from_.server.outgoing_count_total();
  for (std::size_t i = 0; i < kTaskStates; ++i) {
    const auto state = static_cast<TaskState>(i);
    if (const auto count = from_.core.count(state)) {
      out.task_counts.emplace_back(task_state_name(state), count);
    }
  }
  return out;
}

}  // namespace worker
