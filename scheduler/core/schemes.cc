//! The chunk formulas; see schemes.h. Divisions are of integers, so no size depends on rounding.
#include "scheduler/core/schemes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace scheduler {
namespace {

constexpr std::array<std::pair<std::string_view, Scheme>, 11> kNames{{
    {"STATIC", Scheme::static_chunks},
    {"SS", Scheme::ss},
    {"MFSC", Scheme::mfsc},
    {"GSS", Scheme::gss},
    {"TSS", Scheme::tss},
    {"FAC2", Scheme::fac2},
    {"TFSS", Scheme::tfss},
    {"FISS", Scheme::fiss},
    {"VISS", Scheme::viss},
    {"PLS", Scheme::pls},
    {"PSS", Scheme::pss},
}};

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }

//! a / 2^shift, rounded up, for any shift.
std::uint64_t halve_up(std::uint64_t a, std::uint64_t shift) {
  if (shift >= 64) return a != 0;
  return divide_up(a, std::uint64_t{1} << shift);
}

std::uint64_t factoring(const SchemePlan& plan, std::uint64_t batch) {
  return halve_up(divide_up(plan.items, plan.workers), batch + 1);
}

//! How many batches FAC2 makes of these items.
std::uint32_t factoring_batches(const SchemePlan& plan) {
  std::uint32_t batches = 0;
  for (std::uint64_t left = plan.items; left > 0; ++batches) {
    const std::uint64_t size = factoring(plan, batches);
    left = left / size < plan.workers ? 0 : left - size * plan.workers;
  }
  return batches;
}

void plan_trapezoid(SchemePlan& plan) {
  plan.first = std::max<std::uint64_t>(1, divide_up(divide_up(plan.items, plan.workers), 2));
  const std::uint64_t chunks =
      std::max<std::uint64_t>(2, divide_up(2 * plan.items, plan.first + 1));
  plan.change = (plan.first - 1) / (chunks - 1);
}

void plan_increase(SchemePlan& plan) {
  if (plan.options.batches == 0) plan.options.batches = factoring_batches(plan);
  plan.options.batches = std::max<std::uint32_t>(2, plan.options.batches);
  const std::uint64_t batches = plan.options.batches, share = batches + 2;
  plan.first = std::max<std::uint64_t>(1, plan.items / plan.workers / share);
  // 2N(1 - B/X) / (P·B·(B-1)) with X = B + 2; a quotient of quotients, so that nothing overflows.
  plan.change = 4 * plan.items / plan.workers / (share * batches) / (batches - 1);
}

std::uint64_t modified_fixed(const SchemePlan& plan) {
  const auto share = static_cast<double>(divide_up(plan.items, plan.workers));
  if (share <= 1) return 1;
  return static_cast<std::uint64_t>(std::llround(share * std::log(2.0) / std::log(share)));
}

std::uint64_t trapezoid(const SchemePlan& plan, std::uint64_t step) {
  if (plan.change == 0) return plan.first;
  return step > (plan.first - 1) / plan.change ? 1 : plan.first - plan.change * step;
}

//! Mean of the TSS sizes of a batch, without visiting all of them.
std::uint64_t trapezoid_mean(const SchemePlan& plan, std::uint64_t batch) {
  const std::uint64_t begin = batch * plan.workers, end = begin + plan.workers;
  if (plan.change == 0) return plan.first;
  const std::uint64_t falling_end = std::min(end, (plan.first - 1) / plan.change + 1);
  if (begin >= falling_end) return 1;
  const std::uint64_t falling = falling_end - begin;
  const std::uint64_t ends = trapezoid(plan, begin) + trapezoid(plan, falling_end - 1);
  return (falling * ends / 2 + (end - falling_end)) / plan.workers;
}

std::uint64_t static_then_guided(const SchemePlan& plan, std::uint64_t remaining) {
  const auto items = static_cast<double>(plan.items);
  const double share = plan.options.static_share;
  const double dealt = share > 0 ? items * std::min(share, 1.0) : 0;  // also for not-a-number
  if (static_cast<double>(remaining) <= items - dealt) return divide_up(remaining, plan.workers);
  return static_cast<std::uint64_t>(std::ceil(dealt / static_cast<double>(plan.workers)));
}

std::uint64_t by_idle(const SchemePlan& plan, std::uint64_t remaining) {
  const double idle = plan.options.idle.value_or(static_cast<double>(plan.workers));
  const double parts = 1.5 * (idle > 1 ? idle : 1);
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(remaining) / parts));
}

std::uint64_t formula(const SchemePlan& plan, std::uint64_t step, std::uint64_t remaining) {
  const std::uint64_t batch = step / plan.workers;
  switch (plan.scheme) {
    case Scheme::static_chunks:
    case Scheme::mfsc:
      return plan.first;
    case Scheme::ss:
      return 1;
    case Scheme::gss:
      return divide_up(remaining, plan.workers);
    case Scheme::tss:
      return trapezoid(plan, step);
    case Scheme::fac2:
      return factoring(plan, batch);
    case Scheme::tfss:
      return trapezoid_mean(plan, batch);
    case Scheme::fiss:
      return plan.first + batch * plan.change;
    case Scheme::viss:
      return 2 * plan.first - halve_up(plan.first, batch);
    case Scheme::pls:
      return static_then_guided(plan, remaining);
    case Scheme::pss:
      return by_idle(plan, remaining);
  }
  return 1;
}

}  // namespace

SchemePlan plan_chunks(Scheme scheme, std::uint64_t items, std::uint64_t workers,
                       SchemeOptions options) {
  SchemePlan plan{.scheme = scheme,
                  .items = items,
                  .workers = std::max<std::uint64_t>(1, workers),
                  .options = options};
  if (scheme == Scheme::static_chunks) plan.first = divide_up(items, plan.workers);
  if (scheme == Scheme::mfsc) plan.first = modified_fixed(plan);
  if (scheme == Scheme::tss || scheme == Scheme::tfss) plan_trapezoid(plan);
  if (scheme == Scheme::fiss || scheme == Scheme::viss) plan_increase(plan);
  return plan;
}

std::uint64_t chunk_size(const SchemePlan& plan, std::uint64_t step, std::uint64_t remaining) {
  const std::uint64_t grain = std::max<std::uint64_t>(1, plan.options.grain);
  return std::min(remaining, std::max(grain, formula(plan, step, remaining)));
}

std::uint64_t next_chunk(Dealing& dealing, Scheme scheme, std::uint64_t left,
                         std::uint64_t workers) {
  workers = std::max<std::uint64_t>(workers, 1);
  if (dealing.left != left || dealing.plan.scheme != scheme || dealing.plan.workers != workers) {
    dealing = {plan_chunks(scheme, left, workers), 0, left};
  }
  const std::uint64_t chunk = chunk_size(dealing.plan, dealing.step++, left);
  dealing.left = left - chunk;
  return chunk;
}

std::vector<std::uint64_t> all_chunks(const SchemePlan& plan) {
  std::vector<std::uint64_t> chunks;
  for (std::uint64_t left = plan.items; left > 0; left -= chunks.back())
    chunks.push_back(chunk_size(plan, chunks.size(), left));
  return chunks;
}

std::optional<Scheme> parse_scheme(std::string_view name) {
  for (const auto& [known, scheme] : kNames) {
    if (known == name) return scheme;
  }
  return std::nullopt;
}

std::string_view scheme_name(Scheme scheme) {
  for (const auto& [name, known] : kNames) {
    if (known == scheme) return name;
  }
  return "";
}

}  // namespace scheduler
