//! SpecRef: the run spec of one task, kept in a block with those of its siblings.
//!
//! A slice of a graph arrives as columns and stays columns: one block holds the bytes of all its
//! tasks, where each one's end, and the shared tails and buffers once. So a run spec takes a few
//! bytes beside its own, and a block goes when the last of its tasks does. The count is not
//! atomic: a core and what feeds it live on one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/base/payload.h"

namespace scheduler {

class SpecBlock {
 public:
  static constexpr std::uint32_t kNoBlob = 0xffffffff;

  protocol::Slice own;                     //!< of all tasks, one after the other
  std::vector<std::uint32_t> ends;         //!< of each task's part of `own`
  std::vector<protocol::Slice> blobs;      //!< tails and buffers
  std::uint32_t tail = kNoBlob;            //!< of every task, unless `tails` says otherwise
  std::vector<std::uint32_t> tails;        //!< of each task; empty: see `tail`
  std::vector<std::uint32_t> buffers;      //!< of all tasks, one after the other
  std::vector<std::uint32_t> buffer_ends;  //!< of each task's part of `buffers`; empty: none

  protocol::RunSpec spec(std::uint32_t i) const {
    protocol::RunSpec out;
    const std::uint32_t begin = i == 0 ? 0 : ends[i - 1];
    out.own = own.sub(begin, ends[i] - begin);
    const std::uint32_t tail_of_task = tails.empty() ? tail : tails[i];
    if (tail_of_task != kNoBlob) out.tail = blobs[tail_of_task];
    if (buffer_ends.empty()) return out;
    for (std::uint32_t b = i == 0 ? 0 : buffer_ends[i - 1]; b < buffer_ends[i]; ++b) {
      out.buffers.push_back(blobs[buffers[b]]);
    }
    return out;
  }

 private:
  friend class SpecRef;
  std::uint32_t shares_ = 0;
};

class SpecRef {
 public:
  SpecRef() = default;
  //! Takes over a block made by `new`; further tasks of it copy this and say at().
  explicit SpecRef(SpecBlock* block, std::uint32_t index = 0) : block_(block), index_(index) {
    ++block_->shares_;
  }
  SpecRef(const SpecRef& other) : block_(other.block_), index_(other.index_) {
    if (block_ != nullptr) ++block_->shares_;
  }
  SpecRef(SpecRef&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), index_(other.index_) {}
  SpecRef& operator=(SpecRef other) noexcept {
    std::swap(block_, other.block_);
    std::swap(index_, other.index_);
    return *this;
  }
  ~SpecRef() { reset(); }

  //! A block with one run spec in it.
  static SpecRef of(const protocol::RunSpec& spec) {
    auto* block = new SpecBlock;
    block->own = spec.own;
    block->ends = {static_cast<std::uint32_t>(spec.own.size())};
    block->blobs = spec.buffers;
    for (std::uint32_t i = 0; i < spec.buffers.size(); ++i) block->buffers.push_back(i);
    if (!spec.buffers.empty())
      block->buffer_ends = {static_cast<std::uint32_t>(spec.buffers.size())};
    if (!spec.tail.empty()) {
      block->tail = static_cast<std::uint32_t>(block->blobs.size());
      block->blobs.push_back(spec.tail);
    }
    return SpecRef(block);
  }

  SpecRef at(std::uint32_t index) const { return SpecRef(block_, index); }
  void reset() {
    if (block_ != nullptr && --block_->shares_ == 0) delete block_;
    block_ = nullptr;
  }
  explicit operator bool() const { return block_ != nullptr; }
  protocol::RunSpec get() const { return block_->spec(index_); }

 private:
  SpecBlock* block_ = nullptr;
  std::uint32_t index_ = 0;
};

}  // namespace scheduler
