//! How much memory a plain task takes in the core, and that all of it comes back.
#include <malloc.h>

#include <cstdio>

#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {
std::size_t in_use() { return mallinfo2().uordblks + mallinfo2().hblkhd; }
}  // namespace

TEST_CASE("a plain map task takes at most 260 bytes besides its key and run spec",
          "[scheduler][memory]") {
  constexpr std::uint32_t kTasks = 200'000;
  Config config;
  config.story_length = 1000;
  Core core(config);
  Actions out;
  const Now now{Duration::seconds(1), 1.0};
  core.step(ClientAdded{ClientId(0), "me"}, "", now, out);
  std::vector<Key> names;
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    names.push_back(protocol::string_key("inc-0123456789abcdef0123456789ab" + std::to_string(i)));
  }
  const std::vector<KeyView> keys(names.begin(), names.end());
  const SpecRef spec = SpecRef::of({});
  GraphRecords records{SubmissionId(0), {}};
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    GraphTask task;
    task.key = i;
    task.spec = spec;
    task.priority = i;
    records.tasks.push_back(task);
  }
  out.clear();
  out.shrink_to_fit();
  const std::size_t before = in_use();
  core.step(GraphOpened{SubmissionId(0), ClientId(0), 0, false, {}, true}, "", now, out);
  core.step(GraphWants{SubmissionId(0), keys}, "", now, out);
  core.step(GraphKeys{SubmissionId(0), keys, false, {}}, "", now, out);
  core.step(records, "", now, out);
  core.step(GraphCommitted{SubmissionId(0)}, "", now, out);
  while (!core.state().submissions.empty()) core.step(Turn{}, "", now, out);
  out.clear();
  out.shrink_to_fit();
  const std::size_t key_bytes = 16 + 48;  // the block of a key with its share count
  const double per_task = static_cast<double>(in_use() - before) / kTasks;
  std::printf("core memory per queued map task: %.0f B with the key, %.0f B without\n", per_task,
              per_task - static_cast<double>(key_bytes));
  CHECK(per_task - static_cast<double>(key_bytes) < 260);

  for (std::size_t first = 0; first < kTasks; first += 4096) {
    const std::size_t count = std::min<std::size_t>(4096, kTasks - first);
    core.step(KeysReleased{ClientId(0), std::span(keys).subspan(first, count)}, "", now, out);
  }
  core.step(Tick{}, "", now, out);
  out.clear();
  out.shrink_to_fit();
  CHECK(core.state().tasks.size() == 0);
  const auto left = static_cast<double>(in_use()) - static_cast<double>(before);
  std::printf("left after release: %.1f B per task\n", left / kTasks);
  CHECK(left / kTasks < 16);
}
