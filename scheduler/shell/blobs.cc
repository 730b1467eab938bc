#include "scheduler/shell/blobs.h"

namespace scheduler {

protocol::BlobNumber BlobBook::number(const protocol::Slice& bytes,
                                      std::vector<protocol::NumberedBlob>& fresh) {
  Sent& sent = sent_[{bytes.data(), bytes.size()}];
  if (sent.number != 0 && !sent.owner.expired()) return sent.number;
  if (sent.number != 0) replaced_.push_back(sent.number);
  sent.number = next_++;
  sent.owner = bytes.watch();
  fresh.push_back({sent.number, bytes});
  return sent.number;
}

protocol::BlobNumber BlobBook::number_if_shared(const protocol::Slice& bytes,
                                                std::vector<protocol::NumberedBlob>& fresh) {
  const bool again = std::exchange(last_, bytes.data()) == bytes.data();
  if (again || sent_.contains({bytes.data(), bytes.size()})) return number(bytes, fresh);
  return 0;
}

std::vector<protocol::BlobNumber> BlobBook::sweep() {
  std::vector<protocol::BlobNumber> gone = std::exchange(replaced_, {});
  for (auto entry = sent_.begin(); entry != sent_.end();) {
    if (!entry->second.owner.expired()) {
      ++entry;
      continue;
    }
    gone.push_back(entry->second.number);
    sent_.erase(entry++);
  }
  return gone;
}

}  // namespace scheduler
