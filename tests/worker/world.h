//! A worker core in a glass: feed it events by name, read what it did as lines.
//!
//! Peers are named "B", "C" (each on a host of its own) or "near…" (on our host). `sent()` gives every
//! action since the last call, one line each, so comparing it with a literal list also says that
//! nothing else was sent. After every step the core's invariants and the ledger of values are
//! checked; a broken one fails the test.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/core/core.h"

namespace tests {

using Lines = std::vector<std::string>;

struct Need {
  std::string key;
  std::vector<std::string> who_has;
  std::uint64_t nbytes = 1;
};

struct Compute {
  std::string key;
  std::vector<Need> needs{};
  std::uint64_t run = 1;
  std::vector<double> priority{0};
  std::vector<std::pair<std::string, double>> resources{};
  bool actor = false;
};

class World {
 public:
  explicit World(worker::Config config = {});

  Lines sent();
  std::string state(std::string_view key) const;  //!< "unknown" for a key that is not
  const worker::Task& task(std::string_view key) const;
  const worker::Core& core() const { return core_; }
  worker::Core& core() { return core_; }

  // ---- the scheduler says -----------------------------------------------------------------------
  void compute(const Compute& what);
  void free(const std::vector<std::string>& keys);
  void remove_replicas(const std::vector<std::string>& keys);
  void acquire(const std::vector<Need>& replicas);
  void steal(std::string_view key);
  void refresh(const std::vector<Need>& who_has);
  void remove_worker(std::string_view peer);
  void cancel_compute(std::string_view key);

  // ---- transfers end ----------------------------------------------------------------------------
  void arrive(std::string_view peer, const std::vector<std::string>& keys, std::uint64_t size = 1);
  void busy(std::string_view peer);
  void unreachable(std::string_view peer);
  void unreadable(std::string_view peer);
  void retry(std::string_view peer);

  // ---- executions end; the run is the one Execute named -----------------------------------------
  void finish(std::string_view key, std::uint64_t nbytes = 1);
  void fail(std::string_view key);
  void reschedule(std::string_view key);
  void secede(std::string_view key, double seconds = 1.5);

  // ---- the worker itself ------------------------------------------------------------------------
  void pause() { step(worker::Pause{}); }
  void unpause() { step(worker::Unpause{}); }
  void scatter(const std::vector<std::string>& keys, std::uint64_t nbytes = 1);
  void find_missing() { step(worker::FindMissing{}); }
  void set_resource(std::string_view name, double total);

  //! Any event; the shortcuts above use it too.
  void step(const worker::Event& event);
  worker::TaskId id(std::string_view key) const;
  worker::PeerId peer(std::string_view name) const;
  worker::ValueId new_value();

 private:
  std::string line(const worker::Action& action) const;
  void check(const worker::Actions& actions);

  worker::Core core_;
  Lines sent_;
  std::map<std::string, worker::RunId, std::less<>> runs_;  //!< of the last Execute of a key
  std::set<std::uint64_t> values_;
  std::uint64_t next_value_ = 1;
};

}  // namespace tests
