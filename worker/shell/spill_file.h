//! One packed value on disk.
//!
//! A spill file holds a payload exactly as it would be sent, with a checksum over all of it. Reading
//! gives the same payload or an error, never other bytes: a truncated or altered file is a lost
//! replica, not a wrong value. Files are named by number and removed with their last share.
//!
//! Blocking; called on executor threads and on the loop's thread pool, never on the loop itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/base/payload.h"
#include "protocol/base/result.h"

namespace worker {

class SpillFile {
 public:
  //! Writes `payload` to a new file. On failure (disk full, i/o error) nothing is left behind.
  static protocol::Result<std::shared_ptr<SpillFile>> write(std::string path,
                                                            const protocol::Payload& payload);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  protocol::Result<protocol::PayloadRef> read() const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  SpillFile(std::string path, std::uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::uint64_t bytes_;
};

using SpillRef = std::shared_ptr<SpillFile>;

}  // namespace worker
