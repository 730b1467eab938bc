//! KEEP: from blocks of one shape to blocks of another on disk; see strategies.h.
//!
//! The array is read in boxes, in storage order. Of each box, what completes an output block is
//! written; the rest is kept (copied, so that the box can go) until its block is complete. Thus
//! every output block is written once, in one piece; what varies is how often input files are
//! opened and how much is kept.
#include <algorithm>
#include <numeric>

#include "scheduler/frontend/io/strategies.h"

namespace scheduler::io {
namespace {

constexpr std::size_t kCandidatesMax = 4096;
constexpr std::uint64_t kStepsMax = 100'000'000;  //!< boxes visited; then the best so far is it

//! Calls `visit` with each index of a grid in storage order.
template <class Visit>
void each(std::span<const Extent> counts, Visit visit) {
  std::vector<Extent> at(counts.size(), 0);
  while (true) {
    visit(std::span<const Extent>(at));
    std::size_t d = counts.size();
    while (d > 0 && ++at[d - 1] == counts[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<Extent> counts_of(std::span<const Extent> shape, std::span<const Extent> block) {
  std::vector<Extent> counts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    counts.push_back((shape[d] + block[d] - 1) / block[d]);
  }
  return counts;
}

std::uint64_t total(std::span<const Extent> counts) {
  return std::accumulate(counts.begin(), counts.end(), Extent{1}, std::multiplies<>());
}

//! Parts into which an axis of one grid is cut by another, as (block, cutter, length).
struct Part {
  Extent block;
  Extent cutter;
  Extent length;
};

std::vector<Part> parts_of(Extent extent, Extent block, Extent cutter) {
  std::vector<Part> parts;
  for (Extent at = 0; at < extent;) {
    const Extent end = std::min({extent, (at / block + 1) * block, (at / cutter + 1) * cutter});
    parts.push_back({at / block, at / cutter, end - at});
    at = end;
  }
  return parts;
}

//! Seeks in files of `block` when each is accessed box by box of `cutter`: for each axis the number
//! of pieces and the length of a block decide where the innermost cut lies.
std::uint64_t file_seeks(std::span<const Extent> shape, std::span<const Extent> block,
                         std::span<const Extent> cutter) {
  const std::size_t n = shape.size();
  std::vector<std::vector<Extent>> pieces(n), lengths(n);
  for (std::size_t d = 0; d < n; ++d) {
    const Extent count = (shape[d] + block[d] - 1) / block[d];
    pieces[d].assign(count, 0);
    lengths[d].assign(count, 0);
    for (const Part& part : parts_of(shape[d], block[d], cutter[d])) {
      ++pieces[d][part.block];
      lengths[d][part.block] += part.length;
    }
  }
  std::uint64_t total = 0;
  each(counts_of(shape, block), [&](std::span<const Extent> at) {
    std::size_t cut = n;
    while (cut > 0 && pieces[cut - 1][at[cut - 1]] == 1) --cut;
    std::uint64_t seeks = cut == 0 ? 1 : pieces[cut - 1][at[cut - 1]];
    for (std::size_t d = 0; d + 1 < cut; ++d) seeks *= lengths[d][at[d]];
    total += seeks;
  });
  return total;
}

//! The most elements in memory at a time, by going through the reads.
std::uint64_t peak_elements(std::span<const Extent> shape, std::span<const Extent> read,
                            std::span<const Extent> out) {
  const std::size_t n = shape.size();
  const std::vector<Extent> reads = counts_of(shape, read), outs = counts_of(shape, out);
  std::vector<std::vector<std::vector<Part>>> parts(n);  // by axis, by read box
  for (std::size_t d = 0; d < n; ++d) {
    parts[d].resize(reads[d]);
    for (const Part& part : parts_of(shape[d], read[d], out[d])) {
      parts[d][part.block].push_back(part);
    }
  }
  std::vector<std::uint64_t> missing(total(outs)), kept(total(outs), 0);
  std::size_t next = 0;
  each(outs, [&](std::span<const Extent> at) {
    std::uint64_t elements = 1;
    for (std::size_t d = 0; d < n; ++d) {
      elements *= std::min(shape[d], (at[d] + 1) * out[d]) - at[d] * out[d];
    }
    missing[next++] = elements;
  });
  std::uint64_t held = 0, peak = 0;
  each(reads, [&](std::span<const Extent> at) {
    std::vector<Extent> pieces(n);
    std::uint64_t box = 1, done = 0;
    for (std::size_t d = 0; d < n; ++d) {
      pieces[d] = parts[d][at[d]].size();
      box *= std::min(shape[d], (at[d] + 1) * read[d]) - at[d] * read[d];
    }
    peak = std::max(peak, held + box);
    each(pieces, [&](std::span<const Extent> piece) {
      std::uint64_t elements = 1, block = 0;
      for (std::size_t d = 0; d < n; ++d) {
        const Part& part = parts[d][at[d]][piece[d]];
        elements *= part.length;
        block = block * outs[d] + part.cutter;
      }
      kept[block] += elements;
      if (kept[block] == missing[block]) done += kept[block];
    });
    held += box - done;
  });
  return peak;
}

std::vector<Extent> divisors_up_to(Extent extent, Extent limit) {
  std::vector<Extent> found;
  for (Extent d = 1; d <= limit; ++d) {
    if (extent % d == 0 || d == limit) found.push_back(d);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace

KeepPlan keep(std::span<const Extent> shape, std::span<const Extent> in,
              std::span<const Extent> out, std::uint64_t itemsize, std::uint64_t bound) {
  const std::size_t n = shape.size();
  std::vector<std::vector<Extent>> choices(n);
  std::vector<Extent> counts(n);
  for (std::size_t d = 0; d < n; ++d) {
    const Extent ideal = std::min(shape[d], in[d] * ((out[d] + in[d] - 1) / in[d]));
    choices[d] = d + 1 == n ? std::vector<Extent>{ideal} : divisors_up_to(shape[d], ideal);
    counts[d] = choices[d].size();
  }
  const std::uint64_t inputs = total(counts_of(shape, in)), outputs = total(counts_of(shape, out));
  KeepPlan best;
  std::size_t tried = 0;
  std::uint64_t steps = 0;
  each(counts, [&](std::span<const Extent> at) {
    if (tried >= kCandidatesMax || steps >= kStepsMax) return;
    ++tried;
    KeepPlan plan;
    for (std::size_t d = 0; d < n; ++d) plan.read.push_back(choices[d][at[d]]);
    steps += inputs + outputs + total(counts_of(shape, plan.read));
    plan.seeks = file_seeks(shape, in, plan.read) + outputs;
    if (best.fits && plan.seeks >= best.seeks) return;
    plan.peak_bytes = peak_elements(shape, plan.read, out) * itemsize;
    plan.fits = plan.peak_bytes <= bound;
    const bool better = best.read.empty() || (plan.fits && !best.fits) ||
                        (plan.fits == best.fits &&
                         (plan.fits ? plan.seeks < best.seeks : plan.peak_bytes < best.peak_bytes));
    if (better) best = plan;
  });
  return best;
}

std::uint64_t repartition_baseline(std::span<const Extent> shape, std::span<const Extent> in,
                                   std::span<const Extent> out) {
  return file_seeks(shape, out, in) + total(counts_of(shape, in));
}

}  // namespace scheduler::io
