//! The last transitions of all tasks, to explain what happened to a key.
//!
//! A ring of fixed length: old entries make room for new ones. A stimulus and its time are stored
//! once per step.
//!
//! Answers to: distributed/scheduler.py, SchedulerState.transition_log and story().
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/core/key_ref.h"
#include "scheduler/core/task.h"

namespace scheduler {

class Story {
 public:
  struct Line {
    KeyView key;
    TaskState from;
    TaskState to;
    std::string_view stimulus;
    double wall;  //!< Unix seconds
  };

  explicit Story(std::uint32_t length) : length_(length) {}

  //! A step begins; its transitions will carry this stimulus.
  void begin(std::string_view stimulus) {
    stimulus_ = stimulus;
    stored_ = false;
  }
  void add(const KeyRef& key, TaskState from, TaskState to, double wall);
  //! The task stays in its state, and this is why. Shown in place of the stimulus.
  void remark(const KeyRef& key, TaskState state, std::string_view why, double wall);

  //! Lines about any of these keys or stimuli, oldest first.
  std::vector<Line> about(const std::vector<KeyView>& keys,
                          const std::vector<std::string_view>& stimuli) const;
  std::uint64_t transitions() const { return total_; }  //!< ever

 private:
  struct Stimulus {
    std::string text;
    double wall = 0;  //!< of its step
  };
  struct Entry {
    KeyRef key;
    std::uint32_t stimulus = 0;
    TaskState from{};
    TaskState to{};
  };

  std::uint32_t length_;
  // Deques: they grow without a copy and without a hole of the size they had before.
  std::deque<Entry> entries_;
  std::deque<Stimulus> stimuli_;       //!< a ring of the same length
  std::uint64_t total_ = 0;
  std::uint64_t stimuli_total_ = 0;
  std::string_view stimulus_;
  bool stored_ = false;                //!< the newest of `stimuli_` is `stimulus_`
};

}  // namespace scheduler
