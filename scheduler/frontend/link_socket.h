//! Our end of one graph process's socket: Dask frames both ways, memfds as ancillary data.
//!
//! libuv's pipes pass only sockets, so this polls the descriptor and calls sendmsg and recvmsg
//! itself. Messages are delivered within a budget of time per turn of the loop; while some are
//! left, nothing more is read, so a child that answers fast cannot hold up everybody else.
//!
//! Invariant: after close() the owner is not called again.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "protocol/base/result.h"
#include "protocol/wire/frames.h"
#include "scheduler/frontend/memfd.h"

namespace scheduler {

class LinkSocket {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_message(protocol::Frames frames) = 0;
    //! The stream ended or broke. Called at most once.
    virtual void on_closed(protocol::Error reason) = 0;
  };

  LinkSocket(uv_loop_t* loop, Fd fd, Owner& owner);
  ~LinkSocket();
  LinkSocket(const LinkSocket&) = delete;
  LinkSocket& operator=(const LinkSocket&) = delete;

  //! Queues a message; `fds` travel with its first byte.
  void send(protocol::OutMessage message, std::vector<Fd> fds);
  //! The oldest descriptor received and not taken yet; an invalid one if there is none.
  Fd take_fd();
  std::size_t unsent_bytes() const;
  void close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace scheduler
