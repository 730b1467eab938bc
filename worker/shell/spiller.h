//! Keeps the worker within its memory: spills values, pauses and resumes the worker.
//!
//! Two readings drive it, as in stock: the size of managed values in memory against `target`, after
//! every new value; and the process's resident memory against `spill` and `pause`, a few times a
//! second. A value that cannot be written stays in memory and nothing is lost; when the disk is
//! full, spilling rests for a while and the worker pauses if it must. Loop thread only.
//!
//! Answers to: distributed/worker_memory.py, WorkerMemoryManager.
#pragma once

#include <functional>
#include <string>

#include "protocol/net/async.h"
#include "protocol/net/loop.h"
#include "worker/shell/packer.h"
#include "worker/shell/store.h"

namespace worker {

class Spiller {
 public:
  struct Hooks {
    std::function<void()> pause;
    std::function<void()> resume;
    std::function<void(const std::string&)> log;
  };
  Spiller(protocol::Loop& loop, Store& store, Packer& packer, const Options& options, Hooks hooks);

  void start();
  void stop() { timer_.stop(); }
  //! A value came into memory.
  void value_added();
  bool paused() const { return paused_; }

 private:
  void watch();
  void spill_if(bool wanted);
  protocol::Async<void> spill_until_content();
  bool over_target() const;
  protocol::Async<protocol::Result<SpillRef>> write(PayloadRef payload);

  protocol::Loop& loop_;
  Store& store_;
  Packer& packer_;
  const Options& options_;
  Hooks hooks_;
  protocol::Timer timer_;
  bool paused_ = false;
  bool spilling_ = false;
  bool process_over_spill_ = false;
  protocol::Duration rest_until_;  //!< after a failed write
  std::uint64_t next_file_ = 0;
};

//! Resident bytes of this process, from the kernel.
std::uint64_t resident_bytes();

}  // namespace worker
