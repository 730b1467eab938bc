//! The last transitions of all tasks, to explain what happened to a key.
//!
//! A ring of fixed length: old entries make room for new ones. A stimulus and its time are stored
//! once per step, those of many steps together: a cluster at work has a step for each result.
//!
//! Answers to: distributed/scheduler.py, SchedulerState.transition_log and story().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
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
  //! Stimuli of kStimuli steps, one after the other.
  static constexpr std::size_t kStimuli = 512;
  struct Stimuli {
    std::string texts;
    std::array<std::uint32_t, kStimuli> ends;  //!< of each one's part of `texts`
    std::array<double, kStimuli> walls;        //!< of its step
  };
  struct Entry {
    KeyRef key;
    std::uint32_t stimulus = 0;  //!< its number, or what is left of it in 32 bits
    TaskState from{};
    TaskState to{};
  };

  void store_stimulus(double wall);
  std::pair<std::string_view, double> stimulus(std::uint32_t number) const;

  std::uint32_t length_;
  // Deques: they grow without a copy and without a hole of the size they had before.
  std::deque<Entry> entries_;
  std::deque<Stimuli> stimuli_;        //!< at least as many as there can be entries
  std::uint64_t stimuli_first_ = 0;    //!< number of the first that is kept
  std::uint64_t total_ = 0;
  std::uint64_t stimuli_total_ = 0;
  std::string_view stimulus_;
  bool stored_ = false;                //!< the newest of `stimuli_` is `stimulus_`
};

}  // namespace scheduler
