//! A set of living workers as bits over their rank, which is their place by address.
//!
//! Dask picks workers out of dictionaries sorted by address; with bits the same order costs
//! nothing. Ranks change when a worker comes or goes: State then builds its sets anew.
#pragma once

#include <cstdint>
#include <vector>

namespace scheduler {

class WorkerSet {
 public:
  void resize(std::size_t workers) {
    words_.assign((workers + 63) / 64, 0);
    count_ = 0;
  }
  bool has(std::uint32_t rank) const { return (words_[rank / 64] >> (rank % 64)) & 1; }
  void set(std::uint32_t rank, bool value) {
    if (has(rank) == value) return;
    words_[rank / 64] ^= std::uint64_t{1} << (rank % 64);
    count_ += value ? 1 : -1;
  }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return static_cast<std::size_t>(count_); }

  //! The rank of the n-th member, n < size().
  std::uint32_t nth(std::size_t n) const {
    std::size_t word = 0;
    for (;; ++word) {
      const auto here = static_cast<std::size_t>(__builtin_popcountll(words_[word]));
      if (n < here) break;
      n -= here;
    }
    std::uint64_t bits = words_[word];
    while (n-- > 0) bits &= bits - 1;
    return static_cast<std::uint32_t>(word * 64) +
           static_cast<std::uint32_t>(__builtin_ctzll(bits));
  }

  template <class Visit>  // in order of rank
  void for_each(Visit visit) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        visit(static_cast<std::uint32_t>(word * 64) +
              static_cast<std::uint32_t>(__builtin_ctzll(bits)));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
  std::int64_t count_ = 0;
};

}  // namespace scheduler
