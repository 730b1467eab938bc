#include "tests/scheduler/print_action.h"

namespace scheduler {

namespace {

struct Print {
  std::ostream& out;

  void line(const char* what, TaskId task, WorkerId worker) {
    out << what << " t" << task.value << " on w" << worker.value;
  }
  void line(const char* what, const Key& key, WorkerId worker) {
    out << what << " " << protocol::key_text(key) << " on w" << worker.value;
  }
  void line(ClientId client, TaskId task, const char* what) {
    out << "c" << client.value << ": t" << task.value << " " << what;
  }

  void operator()(const SendCompute& a) {
    line("compute", a.task, a.worker);
    out << " run " << a.run.value;
  }
  void operator()(const SendFree& a) { line("free", a.task, a.worker); }
  void operator()(const SendFreeUnknown& a) { line("free", a.key, a.worker); }
  void operator()(const SendRemoveReplica& a) { line("remove-replica", a.key, a.worker); }
  void operator()(const SendAcquireReplica& a) { line("acquire-replica", a.task, a.worker); }
  void operator()(const SendRefreshWhoHas& a) {
    out << "refresh-who-has of " << a.tasks.size() << " to w" << a.worker.value;
  }
  void operator()(const SendStealRequest& a) {
    line("steal", a.task, a.worker);
    out << " theft " << a.theft;
  }
  void operator()(const SendShuffleFail& a) {
    out << "shuffle-fail " << a.shuffle << " run " << a.run << " to w" << a.worker.value << ": "
        << a.message;
  }
  void operator()(const AnnounceWorkerGone& a) { out << "w" << a.gone.value << " is gone"; }
  void operator()(const ReportInMemory& a) { line(a.client, a.task, "in memory"); }
  void operator()(const ReportErred& a) { line(a.client, a.task, "erred"); }
  void operator()(const ReportLost& a) { line(a.client, a.task, "lost"); }
  void operator()(const ReportRetried& a) { line(a.client, a.task, "retried"); }
  void operator()(const ReportCancelled& a) {
    out << "c" << a.client.value << ": cancelled";
    for (const Key& key : a.keys) out << " " << protocol::key_text(key);
    out << " (" << a.reason << ")";
  }
  void operator()(const ReportRestart&) { out << "restart"; }
  void operator()(const WantsTick&) { out << "wants a tick"; }
  void operator()(const WantsTurn&) { out << "wants a turn"; }
  void operator()(const Note& a) {
    out << "note " << static_cast<int>(a.kind) << " " << protocol::key_text(a.key);
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Action& action) {
  std::visit(Print{out}, action);
  return out;
}

}  // namespace scheduler
