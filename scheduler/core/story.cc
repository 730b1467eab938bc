#include "scheduler/core/story.h"

#include <algorithm>
#include <utility>

namespace scheduler {

void Story::store_stimulus(double wall) {
  const std::size_t place = stimuli_total_++ % kStimuli;
  if (place == 0) {
    std::size_t usual = 0;
    if (!stimuli_.empty()) {
      stimuli_.back().texts.shrink_to_fit();
      usual = stimuli_.back().texts.size();
    }
    stimuli_.emplace_back();
    stimuli_.back().texts.reserve(usual);
    if (stimuli_total_ > stimuli_first_ + kStimuli + length_) {
      stimuli_.pop_front();
      stimuli_first_ += kStimuli;
    }
  }
  Stimuli& newest = stimuli_.back();
  newest.texts += stimulus_;
  newest.ends[place] = static_cast<std::uint32_t>(newest.texts.size());
  newest.walls[place] = wall;
  stored_ = true;
}

std::pair<std::string_view, double> Story::stimulus(std::uint32_t number) const {
  const std::uint32_t back = number - static_cast<std::uint32_t>(stimuli_first_);
  const Stimuli& group = stimuli_[back / kStimuli];
  const std::size_t place = back % kStimuli;
  const std::size_t begin = place == 0 ? 0 : group.ends[place - 1];
  return {std::string_view(group.texts).substr(begin, group.ends[place] - begin),
          group.walls[place]};
}

void Story::add(const KeyRef& key, TaskState from, TaskState to, double wall) {
  if (length_ == 0) return;
  if (!stored_) store_stimulus(wall);
  if (entries_.size() < length_) entries_.emplace_back();
  Entry& entry = entries_[total_++ % length_];
  entry.key = key;
  entry.stimulus = static_cast<std::uint32_t>(stimuli_total_ - 1);
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
    const auto [text, wall] = stimulus(entry.stimulus);
    if (std::find(keys.begin(), keys.end(), entry.key.view()) == keys.end() &&
        std::find(stimuli.begin(), stimuli.end(), text) == stimuli.end()) {
      continue;
    }
    lines.push_back(Line{entry.key.view(), entry.from, entry.to, text, wall});
  }
  return lines;
}

}  // namespace scheduler
