//! Self-scheduling schemes: how many items a worker takes at a time from a shared pool.
//!
//! Big chunks cost few round trips, small ones even out the end; the schemes are the literature's
//! ways to go from big to small (or the other way round). One chunk is one batch of sibling tasks,
//! or one partition. The formulas are the canonical ones, not those of DAPHNE, whose TFSS, FISS and
//! VISS differ and whose STATIC and FAC2 truncate.
//!
//! Invariant: the chunks of a plan sum to its items, for every scheme and every number of workers.
//!
//! Pure. Answers to: nothing in Dask, which takes one task at a time (SS).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace scheduler {

enum class Scheme : std::uint8_t {
  static_chunks,  //!< STATIC: one equal share per worker
  ss,             //!< SS: one item at a time
  mfsc,           //!< MFSC: a fixed size, as many chunks as FAC2 would make
  gss,            //!< GSS, guided: an equal share of what is left
  tss,            //!< TSS, trapezoid: sizes fall by a constant
  fac2,           //!< FAC2, factoring: batches of P chunks, each batch half of what is left
  tfss,           //!< TFSS, trapezoid factoring: batches of P chunks of the mean TSS size
  fiss,           //!< FISS, fixed increase: batches grow by a constant
  viss,           //!< VISS, variable increase: batches grow, each time by half as much
  pls,            //!< PLS: a static part, then guided
  pss,            //!< PSS: guided by the number of workers expected to be idle
};

struct SchemeOptions {
  std::uint64_t grain = 1;    //!< least chunk, but for the last one
  std::uint32_t batches = 0;  //!< FISS, VISS: number of batches; 0: as many as FAC2 makes
  double static_share = 0.5;  //!< PLS: share of the items dealt out statically
  //! PSS: workers expected to ask at a time; all if not given.
  std::optional<double> idle = std::nullopt;
};

//! A scheme with everything that does not change while items are dealt out.
struct SchemePlan {
  Scheme scheme = Scheme::ss;
  std::uint64_t items = 0;
  std::uint64_t workers = 1;
  SchemeOptions options;
  std::uint64_t first = 1;   //!< size of the first chunk, by the scheme's formula
  std::uint64_t change = 0;  //!< by which sizes fall (TSS, TFSS) or grow (FISS)
};

//! Items being dealt out: the plan, how many chunks it has given, and what should be left by now.
struct Dealing {
  SchemePlan plan;
  std::uint64_t step = 0;
  std::uint64_t left = 0;
};

//! Zero workers count as one, as do a zero grain and too few batches.
SchemePlan plan_chunks(Scheme scheme, std::uint64_t items, std::uint64_t workers,
                       SchemeOptions options = {});

//! Size of chunk number `step` (from 0) when `remaining` items are left: at least the grain, at
//! most what is left. O(1).
std::uint64_t chunk_size(const SchemePlan& plan, std::uint64_t step, std::uint64_t remaining);

//! Next chunk of `left` items. What is left differs from what should be when items came or went
//! otherwise, or a chunk was not taken whole: then, as for another scheme or number of workers, all
//! that is left is dealt out anew.
std::uint64_t next_chunk(Dealing& dealing, Scheme scheme, std::uint64_t left,
                         std::uint64_t workers);

//! All chunks in the order in which they are dealt out.
std::vector<std::uint64_t> all_chunks(const SchemePlan& plan);

//! "STATIC", "SS", "MFSC", …, as users write them; case matters.
std::optional<Scheme> parse_scheme(std::string_view name);
std::string_view scheme_name(Scheme scheme);

}  // namespace scheduler
