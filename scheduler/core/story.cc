#include "scheduler/core/story.h"

#include <algorithm>
#include <utility>

namespace scheduler {

void Story::add(const KeyRef& key, TaskState from, TaskState to, double wall) {
  if (length_ == 0) return;
  if (!stored_) {
    if (stimuli_.size() < length_) stimuli_.emplace_back();
    stimuli_[stimuli_total_++ % length_] = Stimulus{std::string(stimulus_), wall};
    stored_ = true;
  }
  if (entries_.size() < length_) entries_.emplace_back();
  Entry& entry = entries_[total_++ % length_];
  entry.key = key;
  entry.stimulus = static_cast<std::uint32_t>((stimuli_total_ - 1) % length_);
  entry.from = from;
  entry.to = to;
}

void Story::remark(const KeyRef& key, TaskState state, std::string_view why, double wall) {
  const std::string_view stimulus = std::exchange(stimulus_, why);
  stored_ = false;
  add(key, state, state, wall);
  stimulus_ = stimulus;
  stored_ = false;
}

std::vector<Story::Line> Story::about(const std::vector<KeyView>& keys,
                                      const std::vector<std::string_view>& stimuli) const {
  std::vector<Line> lines;
  const std::uint64_t first = total_ - std::min<std::uint64_t>(total_, entries_.size());
  for (std::uint64_t i = first; i < total_; ++i) {
    const Entry& entry = entries_[i % length_];
    const auto& [stimulus, wall] = stimuli_[entry.stimulus];
    if (std::find(keys.begin(), keys.end(), entry.key.view()) == keys.end() &&
        std::find(stimuli.begin(), stimuli.end(), stimulus) == stimuli.end()) {
      continue;
    }
    lines.push_back(Line{entry.key.view(), entry.from, entry.to, stimulus, wall});
  }
  return lines;
}

}  // namespace scheduler
