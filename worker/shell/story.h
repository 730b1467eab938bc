//! The last transitions of tasks, for whoever asks what happened.
//!
//! A ring whose lines are used again, because every task adds several.
//!
//! Answers to: distributed/worker_state_machine.py, WorkerState.log and story.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "worker/shell/border.h"

namespace worker {

class Story {
 public:
  explicit Story(std::size_t lines) : lines_(lines) {}

  void add(protocol::KeyView key, TaskState start, TaskState finish, std::string_view stimulus,
           double time) {
    if (lines_.empty()) return;
    Transition& line = lines_[next_ % lines_.size()];
    line.key.bytes.assign(key.bytes);
    line.start = start;
    line.finish = finish;
    line.stimulus.assign(stimulus);
    line.time = time;
    ++next_;
  }

  //! Oldest first.
  std::vector<Transition> read() const {
    std::vector<Transition> out;
    const std::size_t count = next_ < lines_.size() ? next_ : lines_.size();
    for (std::size_t i = next_ - count; i < next_; ++i) out.push_back(lines_[i % lines_.size()]);
    return out;
  }

 private:
  std::vector<Transition> lines_;
  std::size_t next_ = 0;  //!< lines ever written
};

}  // namespace worker
