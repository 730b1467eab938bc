//! The tasks of one simulated world: which depend on which, and what happens when they run.
//!
//! A key means the same in every graph of a seed, so its right value can be told without running
//! anything: value = hash(key, values of its inputs).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/rng.h"
#include "scheduler/core/events.h"

namespace sim {

using KeyNo = std::uint32_t;

struct Behaviour {
  std::uint32_t fails = 0;       //!< the first n runs raise; kAlways: every run
  std::uint32_t reschedules = 0; //!< the first n runs raise Reschedule
  bool secedes = false;
  bool kills = false;            //!< takes its worker with it
  double seconds = 0.01;
};
inline constexpr std::uint32_t kAlways = 1u << 30;

struct Spec {
  scheduler::Key key;
  std::vector<KeyNo> inputs;
  scheduler::Annotations annotations;
  bool scattered = false;        //!< data of a client; never computed
  bool actor = false;
  bool data_producer = false;
  scheduler::ShuffleSpecRef shuffle;  //!< a P2P barrier
  Behaviour behaviour;
  std::uint64_t value = 0;
};

//! What may happen in a seed. Each family of faults is off in some seeds, to test the rest alone.
struct Options {
  int workers = 3;
  int clients = 2;
  int keys = 40;
  int actions = 60;              //!< things that clients and fate do
  bool losses = false, cancels = false, errors = false, poison = false, pauses = false;
  bool restrictions = false, doubles = false, scatters = false, actors = false, dropped_data = false;
  bool client_losses = false, restarts = false, queueing = true, retries = false, strays = false;
  bool shuffles = false;         //!< some tasks are P2P barriers
  int rask = 0;                  //!< workers may be handed tasks ahead: 0 none, 1 all, 2 some
  bool memory = false;           //!< workers have limits, and some tasks say what they need
};

Options draw_options(protocol::Rng& rng);

struct Universe {
  std::vector<Spec> specs;
  KeyNo find(scheduler::KeyView key) const;
  //! The shuffle that the task sends to, or reads from; null: none.
  const scheduler::ShuffleSpec* shuffle_below(KeyNo key) const;
  const scheduler::ShuffleSpec* shuffle_above(KeyNo key) const;
};

Universe draw_universe(protocol::Rng& rng, const Options& options);

std::uint64_t mix(std::uint64_t a, std::uint64_t b);

}  // namespace sim
