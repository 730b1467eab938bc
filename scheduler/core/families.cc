//! Groups and prefixes: who belongs to which, and what is learned about their durations.
//!
//! Finding the family of a key means taking its name apart; the keys of one graph come in runs of
//! the same family, so the last answer is remembered.
#include <algorithm>
#include <cmath>

#include "protocol/base/key_token.h"
#include "scheduler/core/state.h"

namespace scheduler {

namespace {

constexpr std::size_t kPrefixesKept = 4096;  //!< prefixes without tasks that may stay in memory
constexpr double kLongest = 1e9;             //!< seconds; anything longer is nonsense from a peer

bool alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

//! The part of a key that decides its family, or empty if that is not simple to say.
//! For a tuple it is element 0; for 'name-123' all up to the last dash, provided that what follows
//! is not a word of letters, which dask's key_split would take into the name.
ByteView family_head(KeyView key) {
  using Kind = protocol::KeyToken::Kind;
  protocol::KeyToken token = protocol::read_key_token(key.bytes);
  if (token.kind == Kind::array && token.number > 0) {
    const ByteView rest = key.bytes.substr(token.bytes);
    token = protocol::read_key_token(rest);
    return token.kind == Kind::str ? rest.substr(0, token.bytes) : ByteView();
  }
  if (token.kind != Kind::str || token.body.empty() || !alpha(token.body[0])) return {};
  const std::size_t dash = token.body.rfind('-');
  if (dash == ByteView::npos || dash + 1 == token.body.size()) return {};
  const ByteView last = token.body.substr(dash + 1);
  for (const char c : last) {
    if (static_cast<unsigned char>(c) >= 0x80) return {};
  }
  if (std::all_of(last.begin(), last.end(), alpha)) return {};
  return token.body.substr(0, dash + 1);
}

}  // namespace

TaskGroup& State::family_of(KeyView key) {
  const ByteView head = family_head(key);
  // A head of a tuple begins with its msgpack header byte and so never equals one of a string.
  if (memo_group_ != nullptr && !head.empty() && head == memo_head_) return *memo_group_;
  const std::string name = protocol::group_name(key);
  auto [place, made] = groups.try_emplace(name);
  if (made) {
    const std::string prefix_name = protocol::prefix_name(key);
    std::unique_ptr<TaskPrefix>& prefix = prefixes[prefix_name];
    if (!prefix) {
      prefix = std::make_unique<TaskPrefix>();
      prefix->name = prefix_name;
      prefix->serial = ++prefixes_made_;
      for (const auto& [known, seconds] : config.default_task_durations) {
        if (known != prefix_name) continue;
        prefix->duration_average = seconds;
        prefix->never_stolen = seconds <= 0.001;
      }
      refresh_estimate(*prefix);
    }
    place->second = std::make_shared<TaskGroup>();
    place->second->name = name;
    place->second->prefix = prefix.get();
    place->second->place = prefix->groups.size();
    prefix->groups.push_back(place->second.get());
  }
  memo_head_ = head;
  memo_group_ = place->second.get();
  return *memo_group_;
}

void State::join_group(Task& task, TaskState state) {
  TaskGroup& group = family_of(task.key());
  task.group = &group;
  task.state = state;
  for (TaskCollection* family : {static_cast<TaskCollection*>(&group),
                                 static_cast<TaskCollection*>(group.prefix)}) {
    ++family->states[static_cast<std::size_t>(state)];
    ++family->size;
  }
}

void State::unjoin_group(Task& task) {
  TaskGroup& group = *task.group;
  for (TaskCollection* family : {static_cast<TaskCollection*>(&group),
                                 static_cast<TaskCollection*>(group.prefix)}) {
    --family->states[static_cast<std::size_t>(TaskState::forgotten)];
    --family->size;
  }
}

void State::leave_group(Task& task) {
  TaskGroup& group = *task.group;
  const auto gone = static_cast<std::size_t>(TaskState::forgotten);
  if (group.states[gone] != group.size) return;
  TaskPrefix& prefix = *group.prefix;
  prefix.states[gone] -= group.size;
  prefix.size -= group.size;
  prefix.duration_us -= group.duration_us;
  prefix.nbytes_total -= group.nbytes_total;
  prefix.measured -= group.measured;
  for (const auto& [type, count] : group.types) {
    const auto found = prefix.types.find(type);
    if ((found->second -= count) == 0) prefix.types.erase(found);
  }
  prefix.groups[group.place] = prefix.groups.back();
  prefix.groups[group.place]->place = group.place;
  prefix.groups.pop_back();
  if (memo_group_ == &group) memo_group_ = nullptr;
  group.dependencies.clear();
  group.last_dependency = nullptr;
  const bool drop_prefix = prefix.groups.empty() && prefixes.size() > kPrefixesKept;
  const std::string prefix_name = drop_prefix ? prefix.name : std::string();
  if (drop_prefix) group.prefix = nullptr;  // groups made of it may keep the group alive
  groups.erase(group.name);
  task.group = nullptr;
  if (drop_prefix) prefixes.erase(prefix_name);
}

void State::forget_families() {
  for (auto& [name, group] : groups) group->dependencies.clear();
  groups.clear();
  prefixes.clear();
  memo_group_ = nullptr;
}

double State::estimate(const TaskPrefix& prefix) const {
  if (prefix.duration_average >= 0) return prefix.duration_average;
  if (prefix.max_exec_time > 0) return 2 * prefix.max_exec_time;
  return config.unknown_task_duration;
}

void State::refresh_estimate(TaskPrefix& prefix) {
  const auto ns = std::llround(std::min(estimate(prefix), kLongest) * 1e9);
  if (ns == prefix.estimate_ns) return;
  total_compute_ns += static_cast<Wide>(prefix.processing) * (ns - prefix.estimate_ns);
  prefix.estimate_ns = ns;
  ++estimates_version;
}

void State::add_duration(TaskGroup& group, const StartStop& span) {
  const double seconds = span.stop - span.start;
  const double valid = seconds > 0 && seconds < kLongest ? seconds : 0;  // also not a number
  const auto us = static_cast<std::int64_t>(std::nearbyint(valid * 1e6));
  TaskPrefix& prefix = *group.prefix;
  group.duration_us += us;
  group.durations_us[static_cast<std::size_t>(span.kind)] += us;
  prefix.duration_us += us;
  prefix.durations_us[static_cast<std::size_t>(span.kind)] += us;
  if (span.kind != StartStop::Kind::compute) return;
  if (group.stop < span.stop) group.stop = span.stop;
  if (group.start == 0 || group.start > span.start) group.start = span.start;
  const double measured = static_cast<double>(us) / 1e6;
  prefix.duration_average = prefix.duration_average < 0
                                ? measured
                                : 0.5 * measured + 0.5 * prefix.duration_average;
  refresh_estimate(prefix);
}

}  // namespace scheduler
