//! rask._native._worker: the worker's Runtime as Python sees it.
//!
//! Each blocking call gives up the GIL while it waits; nothing on the native side ever asks for it.
//! python/rask/worker/ is the only user.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "worker/binding/convert.h"
#include "worker/binding/live.h"
#include "worker/shell/runtime.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace worker {

namespace {

//! Reads `name` of the options dict into `out` if it is there.
template <class T>
void read_option(const nb::dict& options, const char* name, T& out) {
  if (options.contains(name)) out = nb::cast<T>(options[name]);
}

void read_option(const nb::dict& options, const char* name, Slice& out) {
  if (!options.contains(name)) return;
  const auto bytes = nb::cast<nb::bytes>(options[name]);
  out = Slice::copy_of(ByteView(bytes.c_str(), bytes.size()));
}

Options options_of(const nb::dict& dict) {
  Options o;
  read_option(dict, "id", o.id);
  read_option(dict, "scheduler_address", o.scheduler_address);
  read_option(dict, "listen_host", o.listen_host);
  read_option(dict, "listen_port", o.listen_port);
  read_option(dict, "contact_address", o.contact_address);
  read_option(dict, "name", o.name);
  read_option(dict, "nthreads", o.nthreads);
  read_option(dict, "memory_limit", o.memory_limit);
  read_option(dict, "memory_target", o.memory_target);
  read_option(dict, "memory_spill", o.memory_spill);
  read_option(dict, "memory_pause", o.memory_pause);
  read_option(dict, "memory_transfer", o.memory_transfer);
  read_option(dict, "max_spill", o.max_spill);
  read_option(dict, "resources", o.resources);
  read_option(dict, "local_directory", o.local_directory);
  read_option(dict, "nanny_address", o.nanny_address);
  read_option(dict, "versions", o.versions);
  read_option(dict, "heartbeat_seconds", o.heartbeat_seconds);
  read_option(dict, "connect_timeout_seconds", o.connect_timeout_seconds);
  read_option(dict, "incoming_connections", o.incoming_connections);
  read_option(dict, "outgoing_connections", o.outgoing_connections);
  read_option(dict, "message_bytes_limit", o.message_bytes_limit);
  read_option(dict, "pin", o.pin);
  return o;
}

//! A share of a live Python object as an owned reference.
nb::object live_object(const LiveRef& live) {
  return live ? nb::borrow(static_cast<PyObject*>(live.get())) : nb::object(nb::none());
}

//! A job as Python sees it. The fields that every task needs are made at once, the rest on demand.
class PyJob {
 public:
  explicit PyJob(Job job) : job_(std::move(job)), key_(key_object(job_.key)) {}

  const Job& job() const { return job_; }
  nb::object key() const { return key_; }
  bool actor() const { return job_.actor; }
  bool annotated() const { return job_.annotations != nullptr; }

  //! The pickle of the run spec: (own, tail, buffers); tail is None unless siblings share it.
  //! A payload (kind, header, frames) if only stock's readers can open it.
  nb::object spec() const {
    if (!job_.spec) return payload_object(job_.packed_spec);
    const protocol::RunSpec& spec = *job_.spec;
    nb::object tail = spec.tail.empty() ? nb::object(nb::none()) : buffer_object(spec.tail);
    return nb::make_tuple(buffer_object(spec.own), tail, frame_list(spec.buffers));
  }
  nb::object annotations() const { return payload_object(job_.annotations); }

  //! [(key, value id, is_live, live object or payload, actor)], in the order of the dependencies.
  nb::list inputs() const {
    nb::list out;
    for (const Input& input : job_.inputs) {
      const bool live = input.value.live != nullptr;
      out.append(nb::make_tuple(key_object(input.key), input.id.value, live,
                                live ? live_object(input.value.live)
                                     : payload_object(input.value.packed),
                                input.actor));
    }
    return out;
  }

 private:
  Job job_;
  nb::object key_;
};

class PyRuntime {
 public:
  explicit PyRuntime(const nb::dict& options)
      : drops_(std::make_shared<DropQueue>()), runtime_(options_of(options)) {
    drops_->on_work([this] { runtime_.wake_pack(); });
  }
  ~PyRuntime() { drops_->close(); }

  void listen() {
    const protocol::Status status = runtime_.listen();
    if (!status) throw std::runtime_error(status.error().text());
  }
  void start() { runtime_.start(); }
  void run() { runtime_.run(); }
  void announce_closing() { runtime_.announce_closing(); }
  void after_fork_in_child() {
    drops_->close();
    runtime_.after_fork_in_child();
  }
  void stop() {
    const nb::gil_scoped_release unlocked;
    runtime_.stop();
  }

  // ---- executors ----------------------------------------------------------------------------
  void pin_executor() {
    const protocol::Status status = runtime_.pin_executor();
    if (!status) throw std::runtime_error(status.error().text());
  }
  std::optional<PyJob> next_job() {
    std::optional<Job> job;
    {
      const nb::gil_scoped_release unlocked;
      job = runtime_.next_job();
    }
    drops_->drain();
    if (!job) return std::nullopt;
    return PyJob(std::move(*job));
  }

  void finished(const PyJob& job, nb::handle value, std::uint64_t nbytes, nb::handle packed,
                std::string type_name, const nb::bytes& type, double start, double stop,
                std::uint64_t thread) {
    Finished result;
    result.value = {drops_->hold(value.ptr()), payload_of(packed, *drops_), nbytes};
    result.type_name = std::move(type_name);
    result.type = Slice::copy_of(ByteView(type.c_str(), type.size()));
    result.start = start;
    result.stop = stop;
    result.thread = thread;
    runtime_.finished(job.job(), std::move(result));
  }

  void failed(const PyJob& job, nb::handle exception, nb::handle traceback,
              std::string exception_text, std::string traceback_text, double start, double stop,
              std::uint64_t thread) {
    runtime_.failed(job.job(),
                    Failed{payload_of(exception, *drops_), payload_of(traceback, *drops_),
                           std::move(exception_text), std::move(traceback_text), start, stop,
                           thread});
  }
  void rescheduled(const PyJob& job) { runtime_.rescheduled(job.job()); }
  void seceded(nb::handle key, double seconds) { runtime_.seceded(key_of(key), seconds); }
  void set_live(std::uint64_t id, nb::handle value) {
    runtime_.set_live(ValueId(id), drops_->hold(value.ptr()));
  }
  void interrupt_executor() { runtime_.interrupt_executor(); }

  // ---- pack thread --------------------------------------------------------------------------
  //! (value id, key, value, is actor) to pack, () after a wake-up for drops, None when the worker closes.
  nb::object next_pack() {
    std::optional<PackRequest> request;
    {
      const nb::gil_scoped_release unlocked;
      request = runtime_.next_pack();
    }
    drops_->drain();
    if (!request) return nb::none();
    if (!request->value.valid()) return nb::tuple();
    return nb::make_tuple(request->value.value, key_object(request->key),
                          live_object(request->live), request->actor);
  }
  void packed(std::uint64_t id, nb::handle payload) {
    runtime_.packed(ValueId(id), payload_of(payload, *drops_));
  }
  void pack_failed(std::uint64_t id, std::string text) {
    runtime_.pack_failed(ValueId(id), std::move(text));
  }

  // ---- service loop -------------------------------------------------------------------------
  int service_fd() const { return runtime_.service_fd(); }
  //! [(kind, token, frames, text, job)], kind by name.
  nb::list take_service_events() {
    static constexpr const char* kKinds[] = {"registered", "refused", "request", "stream",
                                             "job",        "log",     "status",  "close"};
    nb::list out;
    for (ServiceEvent& event : runtime_.take_service_events()) {
      nb::object job = event.job ? nb::cast(PyJob(std::move(*event.job))) : nb::object(nb::none());
      out.append(nb::make_tuple(kKinds[static_cast<int>(event.kind)], event.token,
                                frame_list(event.message), event.text, job));
    }
    return out;
  }
  void reply(std::uint64_t token, nb::handle frames, bool close) {
    auto slices = slices_of(frames, *drops_);
    if (close) {
      runtime_.reply_and_close(token, std::move(slices));
    } else {
      runtime_.reply(token, std::move(slices));
    }
  }
  void send_to_scheduler(nb::handle frames) {
    runtime_.send_to_scheduler(slices_of(frames, *drops_));
  }
  void claim_op(std::string op) { runtime_.claim_op(std::move(op)); }
  void set_heartbeat_extensions(const nb::bytes& bytes) {
    runtime_.set_heartbeat_extensions(Slice::copy_of(ByteView(bytes.c_str(), bytes.size())));
  }

  // ---- data ---------------------------------------------------------------------------------
  nb::list keys() const {
    nb::list out;
    for (const Key& key : runtime_.keys()) out.append(key_object(key));
    return out;
  }
  //! (is_live, live object or payload, nbytes), or None if the worker does not hold the key.
  nb::object value(nb::handle key) const {
    const auto found = runtime_.value(key_of(key));
    if (!found) return nb::none();
    const bool live = found->live != nullptr;
    return nb::make_tuple(live, live ? live_object(found->live) : payload_object(found->packed),
                          found->nbytes);
  }
  void put(nb::handle key, nb::handle value, std::uint64_t nbytes) {
    runtime_.put(key_of(key), {drops_->hold(value.ptr()), nullptr, nbytes});
  }

  nb::bytes metrics() const { return bytes_object(runtime_.metrics().view()); }
  nb::dict counts() const {
    nb::dict out;
    for (const auto& [name, count] : runtime_.counts()) out[name.c_str()] = count;
    return out;
  }
  std::string address() const { return runtime_.address(); }

 private:
  std::shared_ptr<DropQueue> drops_;
  Runtime runtime_;
};

void bind_runtime(nb::module_& module) {
  nb::class_<PyJob>(module, "Job")
      .def_prop_ro("key", &PyJob::key)
      .def_prop_ro("actor", &PyJob::actor)
      .def_prop_ro("annotated", &PyJob::annotated)
      .def("spec", &PyJob::spec)
      .def("annotations", &PyJob::annotations)
      .def("inputs", &PyJob::inputs);
  nb::class_<PyRuntime>(module, "Runtime", nb::is_weak_referenceable())
      .def(nb::init<const nb::dict&>())
      .def("listen", &PyRuntime::listen)
      .def("start", &PyRuntime::start)
      .def("run", &PyRuntime::run)
      .def("announce_closing", &PyRuntime::announce_closing)
      .def("after_fork_in_child", &PyRuntime::after_fork_in_child)
      .def("stop", &PyRuntime::stop)
      .def("pin_executor", &PyRuntime::pin_executor)
      .def("next_job", &PyRuntime::next_job)
      .def("finished", &PyRuntime::finished, "job"_a, "value"_a.none(), "nbytes"_a,
           "packed"_a.none(), "type_name"_a, "type"_a, "start"_a, "stop"_a, "thread"_a)
      .def("failed", &PyRuntime::failed, "job"_a, "exception"_a.none(), "traceback"_a.none(),
           "exception_text"_a, "traceback_text"_a, "start"_a, "stop"_a, "thread"_a)
      .def("rescheduled", &PyRuntime::rescheduled)
      .def("seceded", &PyRuntime::seceded)
      .def("set_live", &PyRuntime::set_live, "id"_a, "value"_a.none())
      .def("interrupt_executor", &PyRuntime::interrupt_executor)
      .def("next_pack", &PyRuntime::next_pack)
      .def("packed", &PyRuntime::packed)
      .def("pack_failed", &PyRuntime::pack_failed)
      .def("service_fd", &PyRuntime::service_fd)
      .def("take_service_events", &PyRuntime::take_service_events)
      .def("reply", &PyRuntime::reply, "token"_a, "frames"_a, "close"_a = false)
      .def("send_to_scheduler", &PyRuntime::send_to_scheduler)
      .def("claim_op", &PyRuntime::claim_op)
      .def("set_heartbeat_extensions", &PyRuntime::set_heartbeat_extensions)
      .def("keys", &PyRuntime::keys)
      .def("value", &PyRuntime::value)
      .def("put", &PyRuntime::put, "key"_a, "value"_a.none(), "nbytes"_a)
      .def("metrics", &PyRuntime::metrics)
      .def("counts", &PyRuntime::counts)
      .def_prop_ro("address", &PyRuntime::address);
}

}  // namespace

}  // namespace worker

NB_MODULE(_worker, module) {
  module.doc() = "The native half of a rask worker.";
  // The runtime lives until the process ends; that is no leak.
  nb::set_leak_warnings(false);
  worker::bind_frame(module);
  worker::bind_runtime(module);
}
