//! The link to the graph processes: hands graphs over, and turns the answers into records.
//!
//! A graph process is a Python child on a socketpair. It may die, hang or lie at any time; then
//! only the submissions it held end with on_error, and the link starts another child. What it
//! sends is read as hostile input: a child that breaks the format is killed.
//!
//! Every submission ends with exactly one of on_commit and on_error, or with drop. Calls of the
//! sink for one submission keep the order of the link; callbacks come from the loop only, never
//! from inside submit, drop or load. A client's submissions are answered in the order of submit.
//! A graph that is submitted after on_loaded is opened by a child that has loaded the upload.
//!
//! Thread: the loop's. Answers to: the part of distributed.Scheduler.update_graph before
//! "BELOW THIS LINE HAS TO BE SYNCHRONOUS". Format: README.md beside this file.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/core/events.h"
#include "scheduler/frontend/graph_types.h"

namespace scheduler {

class GraphLink {
 public:
  struct Options {
    std::string python = "python3";  //!< interpreter of the graph processes
    std::vector<std::string> arguments = {"-m", "rask.graph_process"};
    std::uint32_t processes_max = 0;     //!< 0: one per core
    std::uint64_t busy_ms = 100;         //!< another child starts after this much work
    //! Clients that are connected. One alone has its graphs opened in order, so a second child would
    //! only cost it the processor time of the imports. Unset: always several.
    std::function<std::size_t()> clients;
    std::uint64_t drop_grace_ms = 1000;  //!< a dropped graph may run this much longer
    std::string temporary;               //!< directory for uploaded files; empty: the system's
  };

  struct Request {
    SubmissionId id;
    ClientId client;
    PayloadRef expr;         //!< update-graph's expr_ser
    PayloadRef annotations;  //!< update-graph's annotations; null: none
    PayloadRef fifo_timeout; //!< update-graph's, for the child to read; null: not needed
    bool order = true;       //!< true: the client sent no internal_priority
    protocol::Slice wanted;  //!< msgpack array of the wanted keys; best in shared memory if large
    std::string settings;    //!< msgpack map of rask.configure's settings; empty: none
    GraphWorkers workers;
  };

  class Sink {
   public:
    virtual ~Sink() = default;
    //! A child is up. `versions`: msgpack map, as distributed.versions.get_versions().
    virtual void on_hello(ByteView versions) = 0;
    static constexpr std::uint32_t kNoHome = 0xffffffff;
    //! For each key the number of a worker that holds it, or kNoHome. Keys are borrowed.
    virtual std::vector<std::uint32_t> on_homes(SubmissionId id, std::span<const KeyView> keys) = 0;
    //! `append`: the graph cannot fail as a whole any more; `tasks`: their number, if known;
    //! `fifo_timeout`: seconds, if the child was asked.
    virtual void on_open(SubmissionId id, bool append, std::optional<std::uint64_t> tasks,
                         std::optional<double> fifo_timeout) = 0;
    //! Keys in canonical form, numbered from 0 in order of arrival. Borrowed for the call.
    virtual void on_keys(SubmissionId id, std::span<const KeyView> keys, bool outside) = 0;
    //! Records of one slice; the spans of dependencies are borrowed for the call.
    //! All dependency numbers are below the count of keys told so far.
    virtual void on_records(SubmissionId id, std::vector<GraphTask> tasks) = 0;
    virtual void on_barriers(SubmissionId id, std::vector<GraphBarrier> barriers) = 0;
    virtual void on_commit(SubmissionId id) = 0;
    virtual void on_error(SubmissionId id, GraphError error) = 0;
    //! An upload was taken, under this name if it had none. Ends with this or on_load_error.
    virtual void on_loaded(UploadId id, std::string_view name) = 0;
    virtual void on_load_error(UploadId id, GraphError error) = 0;
    //! One line for the log: a child started, died, lied; what user code printed.
    virtual void on_log(std::string_view line) = 0;
  };

  //! Starts the first child at once, so that it is warm when the first graph comes.
  GraphLink(uv_loop_t* loop, Options options, Sink& sink);
  ~GraphLink();
  GraphLink(const GraphLink&) = delete;
  GraphLink& operator=(const GraphLink&) = delete;

  void submit(Request request);
  //! Nobody wants the answer any more; no callback follows. Kills a child that keeps at it.
  void drop(SubmissionId id);
  //! Loads what Client.upload_file registers: in one child now, in every other before its next
  //! graph. `plugin` is a pickle. Once `abandoned`, a child that is stuck in it is ended.
  void load(UploadId id, protocol::Slice plugin, std::function<bool()> abandoned);
  //! Children that start later do without it.
  void forget(UploadId id);
  //! Ends all children. No callback follows; the loop runs out of our handles soon after.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace scheduler
