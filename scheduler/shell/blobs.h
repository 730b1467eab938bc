//! Which shared bytes a rask worker has been sent, and under which number.
//!
//! Bytes are the same if they lie at the same place and their owner lives; the scheduler keeps each
//! function and constant once, so that is exact. The book holds no share: when the last task that
//! uses a blob is forgotten, the blob goes, and the next sweep finds its number free.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <utility>
#include <vector>

#include "protocol/base/bytes.h"
#include "protocol/wire/messages_dense.h"

namespace scheduler {

class BlobBook {
 public:
  //! The number of these bytes; if the worker has never heard it, they are added to `fresh`.
  protocol::BlobNumber number(const protocol::Slice& bytes,
                              std::vector<protocol::NumberedBlob>& fresh);
  //! The same for bytes that may be one task's own: 0 unless the task before had them as well.
  protocol::BlobNumber number_if_shared(const protocol::Slice& bytes,
                                        std::vector<protocol::NumberedBlob>& fresh);
  //! Takes out what is gone. Costs O(blobs).
  std::vector<protocol::BlobNumber> sweep();
  std::size_t size() const { return sent_.size(); }

 private:
  struct Sent {
    protocol::BlobNumber number = 0;
    std::weak_ptr<const void> owner;
  };
  absl::flat_hash_map<std::pair<const char*, std::size_t>, Sent> sent_;
  std::vector<protocol::BlobNumber> replaced_;  //!< their bytes' place was used again
  protocol::BlobNumber next_ = 1;
  const char* last_ = nullptr;  //!< the buffer that was asked for before
};

}  // namespace scheduler
