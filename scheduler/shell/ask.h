//! Asking several workers (or nannies) the same thing at once.
//!
//! Answers to: the inner half of Scheduler.broadcast.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/time.h"
#include "protocol/net/async.h"
#include "protocol/wire/errors.h"
#include "protocol/wire/message.h"

namespace scheduler {

class Server;

//! Whom to ask, and under which name to report the answer.
struct Target {
  std::string worker;
  std::string address;
};

struct Answer {
  std::string worker;
  std::shared_ptr<const protocol::Message> message;  //!< null if there is an error
  std::optional<protocol::PythonError> error;        //!< its type and module live for ever
};

struct Question {
  explicit Question(protocol::OutMessage text) : message(std::move(text)) {}

  protocol::OutMessage message;
  std::optional<protocol::Duration> timeout;
  bool keep = true;  //!< keep the connection for later
};

//! Asks all at once; the answers are in the order of the targets.
protocol::Async<std::vector<Answer>> ask_all(Server& server, std::vector<Target> targets,
                                             Question question);

//! Writes {worker: answer}; the answers must be without errors.
protocol::OutMessage write_answers(const std::vector<Answer>& answers);

//! Every worker, or every worker's nanny.
std::vector<Target> all_workers(Server& server, bool nannies);

}  // namespace scheduler
