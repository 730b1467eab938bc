//! Where the seconds of tasks go.
#include <pthread.h>
#include <time.h>
#include <catch2/catch.hpp>

#include <map>
#include <string>

#include "worker/shell/meter.h"

namespace worker {
namespace {

Job job_of(std::string_view key, std::string span = {}) {
  Job job{};
  job.key = protocol::string_key(key);
  job.span = std::move(span);
  return job;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Call begun() {
  return {seconds_of(CLOCK_REALTIME), 0, static_cast<std::uint64_t>(::pthread_self())};
}

Call ended(Call call) {
  call.stop = seconds_of(CLOCK_REALTIME);
  return call;
}

Call slept(long milliseconds) {
  const Call call = begun();
  const timespec pause{0, milliseconds * 1'000'000};
  ::nanosleep(&pause, nullptr);
  return ended(call);
}

Call worked(double seconds) {
  const Call call = begun();
  const double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < until) {
  }
  return ended(call);
}

std::map<std::string, double> taken(Meter& meter) {
  std::map<std::string, double> out;
  for (const Spent& s : meter.take())
    out[s.span + "/" + s.family + "/" + std::string(s.what)] = s.seconds;
  return out;
}

TEST_CASE("seconds on the CPU are told apart from others") {
  Meter meter;
  Meter::skip();
  meter.finished(job_of("sleepy-1"), slept(30));
  meter.finished(job_of("busy-1"), worked(0.03));
  meter.failed(job_of("bad-1", "span"), slept(5));
  auto spent = taken(meter);
  CHECK(spent["/sleepy/thread-noncpu"] > 0.025);
  CHECK(spent["/sleepy/thread-cpu"] < 0.01);
  CHECK(spent["/busy/thread-cpu"] > 0.025);
  CHECK(spent["span/bad/failed"] > 0.004);
  CHECK(meter.take().empty());
}

TEST_CASE("many calls too short for the clock add up to what it says") {
  Meter meter;
  Meter::skip();
  double wall = 0;
  for (int i = 0; i < 100; ++i) {
    const Call call = slept(0);
    meter.finished(job_of("short-" + std::to_string(i)), call);
    const Call longer = slept(1);
    wall += longer.stop - longer.start;
    meter.finished(job_of("short-" + std::to_string(i)), longer);
  }
  auto spent = taken(meter);
  CHECK(spent["/short/thread-noncpu"] > wall / 2);
}

TEST_CASE("what a call measured itself and calls of other threads are not on this one's CPU") {
  Meter meter;
  Meter::skip();
  const Call call = worked(0.02);
  Meter::told(call.stop - call.start);
  meter.finished(job_of("told-1"), call);
  Call elsewhere = worked(0.02);
  elsewhere.thread = 1;
  meter.finished(job_of("far-1"), elsewhere);
  auto spent = taken(meter);
  CHECK(spent["/told/thread-cpu"] < 0.01);
  CHECK(spent["/far/thread-noncpu"] > 0.015);
  CHECK(spent["/far/thread-cpu"] == 0);
}

}  // namespace
}  // namespace worker
