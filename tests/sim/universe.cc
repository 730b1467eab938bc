#include "tests/sim/universe.h"

#include <algorithm>

namespace sim {

using protocol::Rng;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return Rng(a * 31 + b).next(); }

Options draw_options(Rng& rng) {
  Options options;
  options.workers = 1 + static_cast<int>(rng.below(5));
  options.clients = 1 + static_cast<int>(rng.below(3));
  options.keys = 5 + static_cast<int>(rng.below(60));
  options.actions = 20 + static_cast<int>(rng.below(100));
  for (bool* family : {&options.losses, &options.cancels, &options.errors, &options.pauses,
                       &options.restrictions, &options.doubles, &options.scatters,
                       &options.dropped_data, &options.client_losses, &options.queueing,
                       &options.retries, &options.strays}) {
    *family = rng.chance(0.66);
  }
  options.actors = rng.chance(0.3);
  options.poison = rng.chance(0.3);
  options.restarts = rng.chance(0.2);
  options.shuffles = (options.keys + options.actions) % 3 == 0;
  options.rask = (options.keys + options.actions) % 4 % 3;
  options.memory = (options.keys + 2 * options.actions) % 5 < 2;
  return options;
}

namespace {

void draw_inputs(Rng& rng, Universe& universe, Spec& spec) {
  const std::size_t known = universe.specs.size();
  if (known == 0 || rng.chance(0.35)) return;
  const std::size_t count = rng.chance(0.05) ? 12 : 1 + rng.below(3);
  for (std::size_t i = 0; i < count; ++i) {
    // Mostly close ones, so that chains and trees appear.
    const std::size_t reach = std::min<std::size_t>(known, rng.chance(0.7) ? 8 : known);
    spec.inputs.push_back(static_cast<KeyNo>(known - 1 - rng.below(reach)));
  }
  std::sort(spec.inputs.begin(), spec.inputs.end());
  spec.inputs.erase(std::unique(spec.inputs.begin(), spec.inputs.end()), spec.inputs.end());
}

void draw_behaviour(Rng& rng, const Options& options, Spec& spec) {
  Behaviour& behaviour = spec.behaviour;
  behaviour.seconds = rng.chance(0.1) ? 1.5 : 0.001 * static_cast<double>(1 + rng.below(100));
  if (options.errors && rng.chance(0.15)) {
    behaviour.fails = rng.chance(0.3) ? kAlways : 1 + static_cast<std::uint32_t>(rng.below(2));
    if (rng.chance(0.5)) spec.annotations.retries = static_cast<std::uint32_t>(rng.below(3));
  }
  if (options.errors && rng.chance(0.05)) behaviour.reschedules = 1;
  behaviour.secedes = rng.chance(0.05);
  behaviour.kills = options.poison && rng.chance(0.03);
}

void draw_annotations(Rng& rng, const Options& options, Spec& spec) {
  scheduler::Annotations& annotations = spec.annotations;
  if (rng.chance(0.1)) annotations.priority = static_cast<double>(rng.below(5)) - 2;
  spec.data_producer = spec.inputs.empty() && rng.chance(options.rask > 0 ? 0.8 : 0.2);
  spec.actor = options.actors && rng.chance(0.05);
  if (!options.restrictions || rng.chance(0.8)) return;
  if (rng.chance(0.5)) annotations.resources = {{"GPU", 1.0}};
  if (rng.chance(0.4)) annotations.workers = {protocol::string_key("special")};
  annotations.allow_other_workers = rng.chance(0.5);
}

//! Some need more than any worker has, some more than the budget, most of them little.
void draw_memory(Spec& spec, int number) {
  const std::uint64_t luck = mix(23, static_cast<std::uint64_t>(number)) % 40;
  if (luck < 14) spec.annotations.memory = 1000 + 1000 * luck;
  if (luck == 14) spec.annotations.memory = 1'000'000;
  if (luck > 36) {
    spec.annotations.io_device = "disk";
    spec.annotations.io_concurrency = 1;
  }
}

//! Makes the task the barrier of a P2P shuffle: what it needs are transfers, what needs it outputs.
void make_barrier(Spec& spec, int number) {
  auto shuffle = std::make_shared<scheduler::ShuffleSpec>();
  shuffle->id = std::to_string(number);
  shuffle->npartitions = 6;
  shuffle->parts_out = {0, 1, 2, 3, 4, 5};
  spec.key = protocol::string_key("shuffle-barrier-" + shuffle->id);
  spec.shuffle = std::move(shuffle);
  spec.actor = false;
}

}  // namespace

Universe draw_universe(Rng& rng, const Options& options) {
  Universe universe;
  const std::size_t families = 1 + rng.below(4);
  for (int i = 0; i < options.keys; ++i) {
    Spec spec;
    spec.scattered = options.scatters && rng.chance(0.1);
    spec.key = protocol::string_key((spec.scattered ? "data-" : "f") +
                                    std::string(1, static_cast<char>('a' + rng.below(families))) +
                                    "-" + std::to_string(i));
    if (!spec.scattered) {
      draw_inputs(rng, universe, spec);
      draw_behaviour(rng, options, spec);
      draw_annotations(rng, options, spec);
      if (options.memory) draw_memory(spec, i);
    }
    if (options.shuffles && !spec.inputs.empty() && i % 4 == 3) make_barrier(spec, i);
    spec.value = mix(17, static_cast<std::uint64_t>(i));
    for (const KeyNo input : spec.inputs) spec.value = mix(spec.value, universe.specs[input].value);
    universe.specs.push_back(std::move(spec));
  }
  return universe;
}

const scheduler::ShuffleSpec* Universe::shuffle_below(KeyNo key) const {
  for (const Spec& spec : specs) {
    if (spec.shuffle && std::count(spec.inputs.begin(), spec.inputs.end(), key) > 0) {
      return spec.shuffle.get();
    }
  }
  return nullptr;
}

const scheduler::ShuffleSpec* Universe::shuffle_above(KeyNo key) const {
  for (const KeyNo input : specs[key].inputs) {
    if (specs[input].shuffle) return specs[input].shuffle.get();
  }
  return nullptr;
}

KeyNo Universe::find(scheduler::KeyView key) const {
  for (KeyNo i = 0; i < specs.size(); ++i) {
    if (specs[i].key.view() == key) return i;
  }
  return static_cast<KeyNo>(-1);
}

}  // namespace sim
