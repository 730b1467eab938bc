//! A scheduler core with a few workers and clients around it, for tests that read as stories.
//!
//! Every step is followed by validate(). Actions pile up until the test takes them; a test ends
//! with nothing_else_sent(). Tasks are named by plain string keys; workers and clients get
//! addresses and names in order of creation.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/core/core.h"
#include "scheduler/core/state.h"
#include "tests/scheduler/print_action.h"

namespace scheduler {

struct WorkerOptions {
  std::uint32_t threads = 1;
  std::uint64_t memory_limit = 0;
  Resources resources = {};
  std::string host = "10.0.0.1";
  std::string name = {};  //!< empty: the address
  WorkerStatus status = WorkerStatus::running;
  bool rask = false;
};

//! One task of a graph.
struct Node {
  std::string key;
  std::vector<std::string> needs = {};
  Annotations annotations = {};
  bool actor = false;
  bool data_producer = false;
  ShuffleSpecRef shuffle = {};  //!< a P2P barrier
};

struct GraphOptions {
  bool append = false;
  double fifo_timeout = 0;
  std::string inside = {};  //!< submitted from inside this task
  ClientId client = {};   //!< invalid: the world's first client
};

class World {
 public:
  explicit World(Config config = {});

  // ---- the cast ----
  WorkerId worker(const WorkerOptions& options = {});
  ClientId client(const std::string& name);
  ClientId me() const { return me_; }

  // ---- graphs ----
  //! Stages and commits the graph, then takes turns until it is active. Wants: sinks if empty.
  void graph(const std::vector<Node>& nodes, std::vector<std::string> wants = {},
             const GraphOptions& options = {});
  //! One wanted task.
  TaskId submit(const std::string& key, const std::vector<std::string>& needs = {},
                const Annotations& annotations = {});
  //! `count` wanted tasks prefix-0, prefix-1, ... without inputs.
  void map(const std::string& prefix, int count);
  // Piece by piece:
  SubmissionId open(const GraphOptions& options = {});
  void stage(SubmissionId graph, const std::vector<Node>& nodes);
  void want(SubmissionId graph, const std::vector<std::string>& keys);
  void commit(SubmissionId graph, bool take_turns = true);

  // ---- what happens ----
  void step(const Event& event);
  bool turn();   //!< one, if the core wants it
  void turns();  //!< as long as the core wants them
  void tasks_take(double seconds) { seconds_ = seconds; }  //!< from now on; 0.1 at first
  void finish(const std::string& key, WorkerId worker, RunId run, std::uint64_t nbytes = 8);
  void finish(const std::string& key, std::uint64_t nbytes = 8);  //!< where it is processed
  void err(const std::string& key, WorkerId worker, RunId run);
  void err(const std::string& key);
  void lose(WorkerId worker, bool expected = false);
  void set_status(WorkerId worker, WorkerStatus status);
  void release(const std::vector<std::string>& keys, ClientId client = {});
  void desire(const std::vector<std::string>& keys, ClientId client = {});
  void cancel(const std::vector<std::string>& keys, bool force = false, ClientId client = {});
  void retry(const std::vector<std::string>& keys);
  void scatter(const std::string& key, const std::vector<WorkerId>& holders,
               std::uint64_t nbytes = 8, ClientId client = {});
  void add_keys(WorkerId worker, const std::vector<std::string>& keys);
  void drop_key(WorkerId worker, const std::string& key);
  void answer_steal(WorkerId worker, const std::string& key, std::uint64_t theft, VictimState state);
  void pass(double seconds) { now_.mono = now_.mono + Duration::seconds(seconds); }
  void tick(double seconds = 0);

  // ---- what is ----
  bool knows(const std::string& key) const;
  TaskId id(const std::string& key) const;
  const Task& task(const std::string& key) const;
  TaskState state(const std::string& key) const { return task(key).state; }
  WorkerId processing_on(const std::string& key) const { return task(key).processing_on; }
  WorkerId processing_on(TaskId id) const { return core.task(id).processing_on; }
  RunId run_of(const std::string& key) const { return task(key).run; }
  RunId run_of(TaskId id) const { return core.task(id).run; }
  int processing_count(WorkerId worker) const;

  // ---- what was sent ----
  //! All actions since the last call.
  Actions sent();
  void forget_sent() { sent(); }
  //! How many of this kind; they count as seen.
  template <class A>
  int took() {
    return static_cast<int>(take<A>().size());
  }
  template <class A>
  std::vector<A> take() {
    std::vector<A> taken;
    Actions rest;
    for (Action& action : out_) {
      if (A* match = std::get_if<A>(&action)) {
        taken.push_back(std::move(*match));
      } else {
        rest.push_back(std::move(action));
      }
    }
    out_ = std::move(rest);
    return taken;
  }
  bool nothing_else_sent();

  Core core;
  const State& inner() const { return core.state(); }

 private:
  std::vector<KeyView> views(const std::vector<std::string>& keys);
  ClientId or_me(ClientId client) const { return client.valid() ? client : me_; }

  double seconds_ = 0.1;
  Now now_{Duration::seconds(1000), 1.7e9};
  Actions out_;
  ClientId me_;
  bool turn_wanted_ = false;
  std::uint32_t next_worker_ = 0, next_client_ = 0, next_graph_ = 0;
  std::map<std::string, Key> keys_;
  std::map<SubmissionId, std::map<std::string, std::uint32_t>> numbers_;
  std::map<SubmissionId, std::int64_t> orders_;
};

}  // namespace scheduler

namespace Catch {
template <>
struct StringMaker<scheduler::Action> {
  static std::string convert(const scheduler::Action& action) {
    std::ostringstream out;
    scheduler::operator<<(out, action);
    return out.str();
  }
};
template <class Tag, class Rep>
struct StringMaker<protocol::Id<Tag, Rep>> {
  static std::string convert(protocol::Id<Tag, Rep> id) {
    return id.valid() ? std::to_string(id.value) : "none";
  }
};
template <>
struct StringMaker<scheduler::TaskState> {
  static std::string convert(scheduler::TaskState state) {
    return std::string(scheduler::state_name(state));
  }
};
}  // namespace Catch
