//! Graphs on their way in: from a client's update-graph through a graph process into the core.
//!
//! The client's session waits on `submit` until the graph is committed or has failed, so its later
//! messages cannot overtake it; other clients go on. Records reach the core in slices as the graph
//! process packs them. Wanted keys and the client's own priorities are merged in here.
//!
//! Answers to: distributed/scheduler.py, Scheduler.update_graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "protocol/net/async.h"
#include "protocol/wire/messages_client.h"
#include "scheduler/frontend/graph_link.h"
#include "scheduler/shell/versions.h"

namespace scheduler {

class Server;

class GraphIntake final : public GraphLink::Sink {
 public:
  GraphIntake(Server& server, std::string python);
  ~GraphIntake() override;

  //! Answers each key of a graph that cannot be taken. Completes as submit does.
  protocol::Completer<bool> refuse(ClientId client, const protocol::UpdateGraph& graph,
                                   std::string why);
  //! Starts the first graph process.
  void start();
  //! Completes when the graph is committed, has failed, or its client is gone. `graph` and what it
  //! borrows must stay until then. `wanted`: msgpack array of the wanted keys.
  protocol::Completer<bool> submit(ClientId client, const protocol::UpdateGraph& graph,
                                   protocol::Slice wanted);
  struct Loaded {
    UploadId id;
    std::string name;                 //!< the plugin's own
    std::optional<GraphError> error;  //!< why it was not taken
  };
  //! Completes when a graph process has loaded the pickled plugin, or could not. Graphs that come
  //! later find it loaded. Once `abandoned`, nobody waits for it.
  protocol::Completer<Loaded> load(protocol::Slice plugin, std::function<bool()> abandoned);
  void forget(UploadId id);
  //! The client is gone: its graphs are forgotten.
  void drop(ClientId client);
  //! The cluster restarts: every open graph is forgotten.
  void drop_all();
  void close();

  //! Graphs not committed yet.
  std::size_t open() const { return submissions_.size(); }

  //! Versions of the graph process, once it has said hello.
  const std::optional<Packages>& packages() const { return packages_; }
  ByteView versions() const { return versions_; }
  //! Completes with the first hello.
  protocol::Completer<bool> hello() const { return hello_; }

  // ---- GraphLink::Sink --------------------------------------------------------------------------
  void on_hello(ByteView versions) override;
  std::vector<std::uint32_t> on_homes(SubmissionId id, std::span<const KeyView> keys) override;
  void on_open(SubmissionId id, bool append, std::optional<std::uint64_t> tasks,
               std::optional<double> fifo_timeout) override;
  void on_keys(SubmissionId id, std::span<const KeyView> keys, bool outside) override;
  void on_records(SubmissionId id, std::vector<GraphTask> tasks) override;
  void on_barriers(SubmissionId id, std::vector<GraphBarrier> barriers) override;
  void on_commit(SubmissionId id) override;
  void on_error(SubmissionId id, GraphError error) override;
  void on_loaded(UploadId id, std::string_view name) override;
  void on_load_error(UploadId id, GraphError error) override;
  void on_log(std::string_view line) override;

 private:
  struct Submission {
    ClientId client;
    const protocol::UpdateGraph* graph;
    std::string stimulus;
    protocol::Completer<bool> done;
    bool opened = false;
    bool failed = false;  //!< its keys are being answered
    std::size_t wants_sent = 0;
    std::uint64_t keys_told = 0;
    // The client's priorities usually come in the order of the keys: walk both in step.
    std::size_t priority_cursor = 0;
    bool as_numbered = true;  //!< so far the number of a key is its priority: none is stored
    std::vector<std::int64_t> priorities;                        //!< by number of key
    absl::flat_hash_map<std::string_view, std::int64_t> by_key;  //!< when the orders differ
    absl::flat_hash_set<std::string_view> actor_keys;
    std::vector<bool> actor;  //!< by number of key
    absl::flat_hash_set<std::string_view> actors_unmet;  //!< those listed that no key was so far
  };

  Submission* find(SubmissionId id);
  Submission* under_way(SubmissionId id);  //!< and has not failed
  void send_wants(SubmissionId id, Submission& submission, std::size_t count);
  static std::int64_t priority_of(Submission& submission, KeyView key);
  static void note_priorities(Submission& submission, std::span<const KeyView> keys, bool outside);
  Submission& begin(SubmissionId id, ClientId client, const protocol::UpdateGraph& graph);
  std::optional<KeyView> unknown_actor(const Submission& submission) const;
  void end(SubmissionId id);
  void end_load(Loaded loaded);
  protocol::Async<void> report_failure(SubmissionId id, GraphError error);
  void report(const Submission& submission, std::string_view status);

  Server& server_;
  std::string python_;
  std::unique_ptr<GraphLink> link_;
  std::uint32_t next_ = 0;
  std::map<SubmissionId, Submission> submissions_;
  UploadId next_upload_ = 0;
  std::map<UploadId, protocol::Completer<Loaded>> loading_;
  std::string versions_;
  std::optional<Packages> packages_;
  protocol::Completer<bool> hello_;
};

}  // namespace scheduler
