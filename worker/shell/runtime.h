//! The native half of a worker, as its Python half sees it.
//!
//! One loop thread (libuv) owns the worker core, every socket, heartbeats, transfers and spill
//! files. It never takes the GIL: Python threads come here and *pull* — executors pull jobs, the
//! pack thread pulls values to pickle, the service loop pulls what is Python by nature — and push
//! answers back. Every function below may be called from any thread and none calls into Python.
//! Most take the loop's turn (LoopThread), so call them without the GIL.
//!
//! Answers to: distributed/worker.py, Worker (the parts that are not Python by nature).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/result.h"
#include "worker/shell/border.h"
#include "worker/shell/options.h"

namespace worker {

class LoopThread;

class Runtime {
 public:
  explicit Runtime(Options options);
  ~Runtime();

  //! Starts the loop thread and listens on the port; address() is known afterwards. May be called
  //! again with another port if it fails.
  protocol::Status listen(std::uint16_t port);
  //! Connects to the scheduler and registers. The outcome is a ServiceEvent.
  void start();
  //! Registered and set up: tells the scheduler that we run; work may come from now on.
  void run();
  //! Takes on a status by its Dask name and tells the scheduler; "closing": no new work is taken.
  void set_status(std::string status);
  //! Holds from the next look at the memory. A worker that began without a limit never looks.
  void set_memory(MemoryBounds bounds);
  void set_resources(std::vector<std::pair<std::string, double>> totals);
  //! Leaves the cluster: closes the stream, stops serving, ends the loop thread. Blocks.
  void stop();

  //! Around fork(), all three by the forking thread. The child loses the worker: its sockets are
  //! closed there, and no other function may be called.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  // ---- executors --------------------------------------------------------------------------------
  //! Binds the calling thread as the `pin` option says; call once per executor, before its jobs.
  protocol::Status pin_executor();
  //! Waits for a job of the default pool. None: interrupted, or the worker closes.
  std::optional<Job> next_job();
  //! Reads inputs back from disk. False: one is damaged; the job was given back and is over.
  //! Leaves those of a lazy job where they are.
  bool read_inputs(Job& job);
  //! An input of a lazy job, wherever it is now, and whether it came from disk. None: it is lost or
  //! damaged; the job is to be given back by rescheduled(), whatever user code makes of that.
  std::optional<std::pair<Input, bool>> read_input(Job& job, std::size_t number);
  //! The same if that is a live object and nobody else has the turn: never waits, so it may be called
  //! with the GIL. Null: ask read_input.
  LiveRef live_input(const Job& job, std::size_t number) const;
  void finished(const Job& job, Finished result);
  void failed(const Job& job, Failed failure);
  void rescheduled(const Job& job);
  void seceded(const Key& key, double compute_seconds);
  //! An input was turned into a live object; later readers use it. `keep_packed`: the packed form
  //! costs little beside it and stays, to be served without Python.
  void set_live(ValueId value, LiveRef live, bool keep_packed);
  //! The same for a value that came from disk, unless it would push others out: then it stays
  //! there.
  void set_live_if_room(ValueId value, LiveRef live, bool keep_packed);
  //! Makes one thread that waits in next_job (now or next) come back without a job.
  void interrupt_executor();

  // ---- pack thread ------------------------------------------------------------------------------
  //! Waits for something to do and takes all there is. None: the worker closes.
  //! After wake_pack it returns a little later with nothing, if then there still `has_drops`.
  std::optional<std::vector<PackRequest>> next_packs(const std::function<bool()>& has_drops);
  //! Makes next_packs return, so that its thread can drop references.
  void wake_pack();
  void packed(std::vector<PackAnswer> answers);
  void described(ValueId value, TypeRef type);

  // ---- service loop -----------------------------------------------------------------------------
  //! Readable whenever service events wait.
  int service_fd() const;
  std::vector<ServiceEvent> take_service_events();
  void reply(std::uint64_t token, std::vector<Slice> frames, bool close);
  //! Queues one op-map on the scheduler stream (frames of distributed.protocol.dumps of one dict).
  void send_to_scheduler(std::vector<Slice> frames);
  //! An RPC op that a Python handler serves from now on although the native side could.
  void claim_op(std::string op);
  void offer_heartbeat(HeartbeatOffer offer);
  //! Whether service events tell of transitions.
  void watch_transitions(bool on);

  // ---- what the worker holds and does -----------------------------------------------------------
  std::vector<Key> keys() const;
  bool holds(const Key& key) const;
  //! The value as an input: read_inputs has been done.
  std::optional<Input> value(const Key& key) const;
  //! Stores a value without a task (update_data, scatter from inside a task).
  void put(const Key& key, Value value, TypeRef type);

  //! What calls spent since it was last asked.
  std::vector<Spent> take_spent();
  //! The calling thread worked for itself; it measured seconds inside a call (Meter).
  static void skip_cpu();
  static void told_seconds(double seconds);
  //! What Worker.get_metrics would say, as a msgpack map.
  Slice metrics() const;
  std::vector<std::pair<std::string_view, std::uint64_t>> counts() const;  //!< by state
  //! Bytes held and on disk, tasks run, transfers: name and number.
  std::vector<std::pair<std::string_view, std::uint64_t>> levels() const;
  std::vector<std::pair<std::string, double>> available_resources() const;
  std::vector<Key> tasks() const;
  std::optional<TaskView> task(const Key& key) const;
  //! Recorded transitions, oldest first.
  std::vector<Transition> story() const;
  std::string address() const;

 private:
  bool find_value(PackRequest& request);

  std::unique_ptr<LoopThread> home_;
};

}  // namespace worker
