//! One graph process: the child itself, its link, and what it prints.
//!
//! It is gone when the process has exited and everything it said has been read; the owner is told
//! once, with the manner of its end in words. What user code prints comes line by line and may be
//! thinned out, but is always read, so that printing never blocks the child.
#pragma once

#include <uv.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/result.h"
#include "protocol/wire/frames.h"
#include "scheduler/frontend/link_socket.h"
#include "scheduler/frontend/memfd.h"

namespace scheduler {

class GraphChild {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_message(GraphChild& child, protocol::Frames frames) = 0;
    //! `how`: "exit code 1", "signal 6 (Aborted)". The child may be destroyed in this call.
    virtual void on_gone(GraphChild& child, std::string how) = 0;
    virtual void on_output(GraphChild& child, std::string_view line) = 0;
  };

  //! Starts `command` with the link on descriptor 3.
  static protocol::Result<std::unique_ptr<GraphChild>> spawn(
      uv_loop_t* loop, const std::vector<std::string>& command, Owner& owner);
  //! Kills the process if it still runs; the owner is not called any more.
  ~GraphChild();
  GraphChild(const GraphChild&) = delete;
  GraphChild& operator=(const GraphChild&) = delete;

  void send(protocol::OutMessage message, std::vector<Fd> fds);
  Fd take_fd();
  //! Ends the process; on_gone follows. What it has said and nobody has read is not delivered.
  void kill();

  int pid() const;
  //! The last line it printed, for saying why it could not start.
  const std::string& last_line() const;

 private:
  struct State;
  GraphChild() = default;
  std::shared_ptr<State> state_;
};

}  // namespace scheduler
