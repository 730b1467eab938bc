//! Classes of leaves and the queue over them; see leaves.h.
#include "scheduler/frontend/ordering/leaves.h"

#include <algorithm>
#include <utility>

#include <absl/container/flat_hash_map.h>

namespace scheduler::ordering {
namespace {

// Sets of leaves may cost this much on top of a linear share.
constexpr std::uint64_t kBudgetFixed = 1'000'000;

// A bijection that scatters bits, so that sums of mixed numbers identify sets.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

//! Sets of leaves, each stored once and named by a number. Leaves are named by their rank among
//! leaves.
class SetStore {
 public:
  explicit SetStore(std::uint32_t leaves) : offsets_(leaves + 1), items_(leaves) {
    for (std::uint32_t i = 0; i < leaves; ++i) {
      items_[i] = i;
      offsets_[i + 1] = i + 1;
    }
  }
  std::size_t size() const { return offsets_.size() - 1; }
  std::span<const std::uint32_t> operator[](std::uint32_t id) const {
    return {items_.data() + offsets_[id], items_.data() + offsets_[id + 1]};
  }

  //! The number of the union of the sets `ids` (sorted, at least two).
  std::uint32_t unite(const std::vector<std::uint32_t>& ids, std::uint64_t& operations) {
    merged_.clear();
    for (std::uint32_t id : ids)
      merged_.insert(merged_.end(), (*this)[id].begin(), (*this)[id].end());
    operations += merged_.size();
    std::sort(merged_.begin(), merged_.end());
    merged_.erase(std::unique(merged_.begin(), merged_.end()), merged_.end());
    std::uint64_t hash = 0;
    for (std::uint32_t item : merged_) hash += mix(item);
    const auto fresh = static_cast<std::uint32_t>(size());
    const auto [known, added] = by_hash_.try_emplace(hash, fresh);
    if (!added && std::ranges::equal((*this)[known->second], merged_)) return known->second;
    items_.insert(items_.end(), merged_.begin(), merged_.end());
    offsets_.push_back(items_.size());
    return fresh;
  }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<std::uint32_t> items_;
  std::vector<std::uint32_t> merged_;
  absl::flat_hash_map<std::uint64_t, std::uint32_t> by_hash_;
};

//! For every task the set of leaves above it; false if the sets outgrow the budget.
bool leaves_above(const Graph& graph, std::span<const Node> sequence, SetStore& sets,
                  std::vector<std::uint32_t>& set_of, std::uint64_t budget,
                  std::uint64_t& operations) {
  std::vector<std::uint32_t> ids;
  for (auto it = sequence.rbegin(); it != sequence.rend(); ++it) {
    const auto dependents = graph.dependents(*it);
    if (dependents.empty()) continue;  // a leaf: set beforehand
    ids.clear();
    for (Node d : dependents) {
      if (ids.empty() || set_of[d] != ids.back()) ids.push_back(set_of[d]);
    }
    operations += dependents.size();
    if (ids.size() > 1) {
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    }
    set_of[*it] = ids.size() == 1 ? ids.front() : sets.unite(ids, operations);
    if (operations > budget) return false;
  }
  return true;
}

//! Counts the roots of each set, then joins leaves that lie in the same sets.
void join(const SetStore& sets, const std::vector<std::uint32_t>& set_roots,
          std::span<const Node> leaves, LeafClasses& out) {
  std::vector<std::uint64_t> signature(leaves.size(), 0);
  std::vector<std::uint32_t> roots(leaves.size(), 0);
  for (std::uint32_t id = 0; id < sets.size(); ++id) {
    if (set_roots[id] == 0) continue;
    for (std::uint32_t leaf : sets[id]) {
      signature[leaf] += mix(id);
      roots[leaf] += set_roots[id];
    }
  }
  absl::flat_hash_map<std::uint64_t, std::uint32_t> numbers;
  numbers.reserve(leaves.size());
  std::vector<std::uint32_t> class_of(leaves.size());
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    const auto fresh = static_cast<std::uint32_t>(out.size());
    class_of[i] = numbers.try_emplace(signature[i], fresh).first->second;
    if (class_of[i] == fresh) out.roots.push_back(roots[i]);
  }
  out.offsets.assign(out.size() + 1, 0);
  for (std::uint32_t c : class_of) ++out.offsets[c + 1];
  for (std::size_t c = 0; c < out.size(); ++c) out.offsets[c + 1] += out.offsets[c];
  std::vector<std::uint32_t> fill(out.offsets.begin(), out.offsets.end() - 1);
  out.leaves.resize(leaves.size());
  for (std::uint32_t i = 0; i < leaves.size(); ++i) out.leaves[fill[class_of[i]]++] = leaves[i];

  out.spans.push_back(0);
  std::vector<std::uint32_t> seen(out.size(), UINT32_MAX);
  for (std::uint32_t id = 0; id < sets.size(); ++id) {
    if (set_roots[id] != 0) {
      for (std::uint32_t leaf : sets[id]) {
        if (std::exchange(seen[class_of[leaf]], id) != id) out.classes.push_back(class_of[leaf]);
      }
    }
    out.spans.push_back(static_cast<std::uint32_t>(out.classes.size()));
  }
}

}  // namespace

LeafClasses classify(const Graph& graph, std::span<const Node> sequence) {
  LeafClasses out;
  const std::uint64_t budget = kBudgetFixed + 2 * (std::uint64_t{graph.size()} + graph.edges());
  std::vector<Node> leaves;
  std::vector<std::uint32_t> set_of(graph.size(), 0);
  for (Node t = 0; t < graph.size(); ++t) {
    if (!graph.dependents(t).empty()) continue;
    set_of[t] = static_cast<std::uint32_t>(leaves.size());
    leaves.push_back(t);
  }
  SetStore sets(static_cast<std::uint32_t>(leaves.size()));
  if (leaves.size() < 2 || !leaves_above(graph, sequence, sets, set_of, budget, out.operations))
    return out;
  std::vector<std::uint32_t> set_roots(sets.size(), 0);
  for (Node t = 0; t < graph.size(); ++t) {
    if (graph.dependencies(t).empty()) ++set_roots[set_of[t]];
  }
  join(sets, set_roots, leaves, out);
  std::uint64_t pairs = 0;
  for (std::size_t id = 0; id < set_roots.size(); ++id)
    pairs += std::uint64_t{set_roots[id]} * (out.spans[id + 1] - out.spans[id]);
  out.operations += out.classes.size();
  if (pairs > budget) {
    const std::uint64_t operations = out.operations;
    out = LeafClasses{};
    out.operations = operations;
    return out;
  }
  out.set_of = std::move(set_of);
  return out;
}

std::vector<Node> by_nearness(const Graph& graph, std::span<const Node> leaves) {
  std::vector<Node> found, queue;
  std::vector<std::uint8_t> seen(graph.size(), 0);
  found.reserve(leaves.size());
  queue.reserve(graph.size());
  const auto visit = [&](Node t) {
    if (std::exchange(seen[t], 1) == 0) queue.push_back(t);
  };
  std::size_t at = 0;
  for (Node start : leaves) {
    visit(start);
    for (; at < queue.size(); ++at) {
      if (graph.dependents(queue[at]).empty()) found.push_back(queue[at]);
      for (Node d : graph.dependencies(queue[at])) visit(d);
      for (Node d : graph.dependents(queue[at])) visit(d);
    }
  }
  return found;
}

LeafQueue::LeafQueue(const Graph& graph, const LeafClasses& classes, std::vector<Node> leaves)
    : classes_(classes),
      preferred_(std::move(leaves)),
      missing_(classes.roots),
      version_(classes.size(), 0),
      changed_(classes.size(), 0) {
  if (classes.size() == 0) return;
  rank_.resize(graph.size());
  for (std::uint32_t i = 0; i < preferred_.size(); ++i) rank_[preferred_[i]] = i;
  members_ = classes.leaves;
  next_.assign(classes.offsets.begin(), classes.offsets.end() - 1);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    std::sort(members_.begin() + classes.offsets[c], members_.begin() + classes.offsets[c + 1],
              [this](Node a, Node b) { return rank_[a] < rank_[b]; });
  }
}

void LeafQueue::loaded(Node root) {
  if (classes_.size() == 0) return;
  const std::uint32_t set = classes_.set_of[root];
  for (std::uint32_t at = classes_.spans[set]; at < classes_.spans[set + 1]; ++at) {
    const std::uint32_t c = classes_.classes[at];
    --missing_[c];
    if (std::exchange(changed_[c], 1) == 0) changes_.push_back(c);
  }
  operations_ += classes_.spans[set + 1] - classes_.spans[set];
}

void LeafQueue::push(std::uint32_t c, const Progress& progress) {
  while (next_[c] < classes_.offsets[c + 1] && progress[members_[next_[c]]].placed) ++next_[c];
  if (next_[c] == classes_.offsets[c + 1]) return;
  touched_.push({missing_[c], rank_[members_[next_[c]]], c, ++version_[c], turn_});
  ++operations_;
}

Node LeafQueue::next(const Progress& progress) {
  ++turn_;
  for (std::uint32_t c : changes_) {
    changed_[c] = 0;
    push(c, progress);
  }
  changes_.clear();
  while (!touched_.empty()) {
    const Entry entry = touched_.top();
    const Node leaf = preferred_[entry.rank];
    const bool current = entry.version == version_[entry.leaf_class];
    if (current && !progress[leaf].placed) return leaf;
    touched_.pop();
    ++operations_;
    if (current) push(entry.leaf_class, progress);  // its leaf is done: the next one of the class
  }
  while (preferred_next_ < preferred_.size() && progress[preferred_[preferred_next_]].placed)
    ++preferred_next_;
  return preferred_next_ == preferred_.size() ? kNone : preferred_[preferred_next_];
}

}  // namespace scheduler::ordering
