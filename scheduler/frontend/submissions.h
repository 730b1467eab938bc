//! The submissions the link holds, and which child takes which.
//!
//! A client's submissions are answered in order, so while a child has one of them it gets the next
//! ones too; several may be on their way to it at once. Everybody else waits for an idle child:
//! nobody stands behind another client's endless graph longer than it takes to start a child.
//!
//! Pure bookkeeping, so that the rules can be tested without processes.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/frontend/graph_link.h"
#include "scheduler/frontend/records.h"

namespace scheduler {

struct GraphSubmission {
  SubmissionId id;
  ClientId client;
  bool order = true;
  PayloadRef expr;
  PayloadRef annotations;
  PayloadRef fifo_timeout;  //!< null: not asked
  protocol::Slice wanted;
  std::string settings;  //!< msgpack map; empty: none
  GraphWorkers workers;
  std::unique_ptr<GraphDecoder> decoder;  //!< once sent to a child
  bool asked = false;                     //!< where its blocks are; a graph asks once
  bool opened = false;
  bool dropped = false;
};

using ChildId = std::uint32_t;

class Submissions {
 public:
  static constexpr std::size_t kPipelined = 8;  //!< submissions of one client at one child
  using Held = std::deque<std::unique_ptr<GraphSubmission>>;

  void add(std::unique_ptr<GraphSubmission> submission);
  void add_child(ChildId child) { children_[child]; }
  //! Closed: the child finishes what it holds and gets nothing more.
  void set_closed(ChildId child, bool closed) { children_.at(child).closed = closed; }
  //! What a child that is gone held, in order; the first may have been begun.
  Held remove_child(ChildId child);
  //! Puts submissions of one client back to the head of its queue, in order.
  void put_back(Held submissions);

  struct Assignment {
    ChildId child;
    GraphSubmission* submission;
  };
  //! The next submission that can go to a child now; it counts as sent from then on.
  //! `may_grow`: another child may still be started; those who wait will get it, and a client that
  //! has a child need not stand back for them.
  std::optional<Assignment> assign(bool may_grow);

  //! The submission a child is working on: the first it holds. Null if it holds none.
  GraphSubmission* current(ChildId child);
  void finish_current(ChildId child) { children_.at(child).held.pop_front(); }
  bool holds_nothing(ChildId child) const { return children_.at(child).held.empty(); }

  enum class Where : std::uint8_t { nowhere, waiting, sent, current };
  //! Forgets a submission that waits; marks one that a child holds, and tells which child.
  std::pair<Where, ChildId> drop(SubmissionId id);

  //! Everything that waits, in the order of each client.
  Held take_waiting();
  bool waiting() const { return !waiting_.empty(); }
  //! Whether a client waits for any child at all, not behind its own graphs.
  bool stranded() const;
  //! False for a child that is closed, or not there (yet).
  bool idle(ChildId child) const {
    const auto found = children_.find(child);
    return found != children_.end() && found->second.idle();
  }
  bool any_idle() const { return idle_child().has_value(); }

 private:
  struct Queue {
    ClientId client;
    Held held;  //!< never empty
  };

  struct Child {
    Held held;
    bool closed = false;
    bool idle() const { return held.empty() && !closed; }
  };

  std::optional<ChildId> idle_child() const;
  std::optional<ChildId> child_of(ClientId client) const;
  Queue& queue_of(ClientId client);

  std::list<Queue> waiting_;  //!< in order of who began to wait first
  std::map<ChildId, Child> children_;
};

}  // namespace scheduler
