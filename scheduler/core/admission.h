//! Memory-bounded admission: may this task start on that worker now, or would it overflow memory?
//!
//! Two kinds of tasks are held back. A *bounded* task says what it needs
//! (`dask.annotate(memory=…)`, or a limit of loads per device): it starts only if managed +
//! reserved + in-flight bytes of the worker plus what it needs stay within the budget, a fraction
//! of the worker's memory limit; on any worker. A *root-ish* task says nothing: on rask workers
//! what its family was seen to need counts, once the sum would pass the budget. Nothing else is
//! ever held back.
//!
//! The invariant to know: nothing waits for ever. A worker that processes nothing, and whose
//! memory nobody else's work will free, takes one task whatever it needs. Held back without
//! annotation, tasks get more and more leeway as long as waiting frees nothing.
#pragma once

#include "scheduler/core/state.h"

namespace scheduler {

//! It says how much it needs, or how many of its kind may run at once.
bool bounded(const State& state, const Task& task);

//! Bytes of a worker, counted or expected.
struct MemoryUse {
  std::uint64_t managed = 0;    //!< results it holds, less what it has spilled
  std::uint64_t reserved = 0;   //!< expected results of what it was given and has not finished
  std::uint64_t in_flight = 0;  //!< inputs that it still has to fetch
  std::uint64_t total() const { return managed + reserved + in_flight; }
};
MemoryUse memory_use(const State& state, const Worker& worker);

inline constexpr std::uint64_t kNoBudget = ~0ull;
std::uint64_t budget_of(const State& state, const Worker& worker);

//! Bytes a task is expected to need on a worker that holds its inputs; 0 if nothing is known.
std::uint64_t expected_bytes(const State& state, const Task& task);

bool may_start(const State& state, const Task& task, const Worker& worker);
//! Gives a task that admission had a say in to the worker.
void start(State& state, TaskId id, Worker& worker);

//! Another task of its family has been measured, on this worker.
void learn_size(State& state, const Task& task, Worker& worker);

// ---- bounded tasks that wait (delayed.cc) -------------------------------------------------------

//! Places a bounded task whose inputs are there: on a worker, or in its lane, or nowhere.
void place_bounded(State& state, TaskId id);
//! Starts tasks that wait in lanes, most urgent first; with `before` only those more urgent.
void start_delayed(State& state, const Priority* before = nullptr);
//! The same for one that nobody could take so far.
void place_unrunnable(State& state, TaskId id);
//! The first task of the queue cannot start though a worker has a free slot: say so in its story.
void note_delayed(State& state, TaskId id);

//! The largest memory limit it could hope for, if all of them are too small for the task.
struct TooSmall {
  std::uint64_t limit = 0;
  WorkerId worker;
};
std::optional<TooSmall> too_large(const State& state, const Task& task);
//! Tasks that no worker can ever hold err after a grace, in which a larger worker may come. Where
//! many wait for a worker, a tick looks at some of them and the next one goes on.
void check_too_large(State& state);

//! What a metrics page shows.
struct MemoryReport {
  struct Line {
    WorkerId worker;
    std::uint64_t limit = 0;
    std::uint64_t budget = 0;
    MemoryUse use;
    std::uint64_t delayed_tasks = 0;  //!< bounded tasks that wait and may run here
    std::uint64_t delayed_bytes = 0;
  };
  std::vector<Line> workers;
  MemoryUse total;
  std::uint64_t delayed_tasks = 0;  //!< bounded ones in lanes, and the queue if memory holds it up
  std::uint64_t delayed_bytes = 0;
};
MemoryReport memory_report(const State& state);

}  // namespace scheduler
