//! Writes the messages that go to a graph process. See README.md for the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/wire/frames.h"
#include "scheduler/frontend/memfd.h"
#include "scheduler/frontend/submissions.h"
#include "scheduler/frontend/uploads.h"

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

//! A plugin to load. `directory`: where the child makes one of its own for files.
//! A large pickle moves into memory that can be shared, once for all children.
GraphRequest upload_request(Upload& upload, const std::string& directory);

}  // namespace scheduler
