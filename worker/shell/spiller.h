//! Keeps the worker within its memory: spills values, pauses and resumes the worker.
//!
//! Two readings drive it, as in stock: the size of managed values in memory against `target`, after
//! every new value; and the process's resident memory against `spill` and `pause`, a few times a
//! second. A value that cannot be written stays in memory and nothing is lost; when the disk is
//! full, spilling rests for a while and the worker pauses if it must.
//!
//! Memory that was freed but that the allocator keeps is resident too. Above `target` it is given
//! back to the system before anything is judged, else it would be spilled or paused for.
//!
//! Answers to: distributed/worker_memory.py, WorkerMemoryManager.
#pragma once

#include <functional>
#include <string>

#include "protocol/net/async.h"
#include "protocol/net/loop.h"
#include "worker/shell/options.h"
#include "worker/shell/packer.h"
#include "worker/shell/store.h"

namespace worker {

class Spiller {
 public:
  struct Hooks {
    //! The process uses this share of its limit; `high`: too much to take on work.
    std::function<void(double used, bool high)> measured;
    std::function<void(const std::string&)> log;
  };
  Spiller(protocol::Loop& loop, Store& store, Packer& packer, const Options& options, Hooks hooks);

  void start();
  void stop();
  //! A value came into memory.
  void value_added();
  //! Whether so many bytes more would leave the values in memory within `target`.
  bool has_room(std::uint64_t bytes) const;

 private:
  void watch();
  void judge(double used);
  protocol::Async<void> trim_and_judge();
  //! `target`, or the first threshold above it that is on; none: not above 0.
  double low() const;
  void spill_if(bool wanted);
  protocol::Async<void> spill_until_content();
  //! False: no more now, the disk or its share is full.
  protocol::Async<bool> spill(ValueId id, Held held);
  bool over_target() const;
  bool still_over();
  protocol::Async<protocol::Result<SpillRef>> write(PayloadRef payload);

  protocol::Loop& loop_;
  Store& store_;
  Packer& packer_;
  const Options& options_;
  Hooks hooks_;
  protocol::Timer timer_;
  bool spilling_ = false;
  bool process_over_ = false;      //!< the process has been above `spill` and not yet below `target`
  protocol::Duration rest_until_;  //!< after a failed write
  protocol::Duration trim_from_;   //!< not before
  bool trimming_ = false;
  bool stopped_ = false;
  std::uint64_t next_file_ = 0;
};

//! Resident bytes of this process, from the kernel.
std::uint64_t resident_bytes();

}  // namespace worker
