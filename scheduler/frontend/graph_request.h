//! Writes the messages that go to a graph process. See README.md for the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/wire/frames.h"
#include "scheduler/frontend/memfd.h"
#include "scheduler/frontend/submissions.h"

namespace scheduler {

struct GraphRequest {
  protocol::OutMessage message;
  std::vector<Fd> fds;
  std::vector<protocol::Slice> frames;  //!< by number, for blobs that refer into them
};

//! Large frames of the submission become memfds; it may be written again after a child died.
GraphRequest graph_request(GraphSubmission& submission);

protocol::OutMessage drop_request(SubmissionId id);

//! The answer to `homes`: a worker's number per key asked for.
protocol::OutMessage homes_answer(SubmissionId id, std::span<const std::uint32_t> homes);

//! A file to import, or (`op` "path") a directory to look for modules in.
struct ImportRequest {
  std::string op;  //!< "import" or "path"
  std::string path;
  protocol::OutMessage message() const;
};

}  // namespace scheduler
