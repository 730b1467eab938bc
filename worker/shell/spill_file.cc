#include "worker/shell/spill_file.h"

#include <absl/hash/hash.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

namespace worker {

using protocol::ByteView;
using protocol::Error;
using protocol::Fault;
using protocol::Payload;
using protocol::Result;
using protocol::Slice;

namespace {

// Layout: count of parts, kind, length of each part, checksum, then the parts (header, frames…).
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kFixedWords = 2;

std::uint64_t mix(std::uint64_t sum, ByteView bytes) {
  return absl::HashOf(sum, bytes);
}

std::vector<ByteView> parts_of(const Payload& payload) {
  std::vector<ByteView> parts{payload.header.view()};
  for (const Slice& frame : payload.frames) parts.push_back(frame.view());
  return parts;
}

std::vector<std::uint64_t> prelude_of(const Payload& payload, const std::vector<ByteView>& parts) {
  std::vector<std::uint64_t> words{parts.size(), static_cast<std::uint64_t>(payload.kind)};
  for (const ByteView part : parts) words.push_back(part.size());
  std::uint64_t sum = mix(0, ByteView(reinterpret_cast<const char*>(words.data()),
                                      words.size() * kWord));
  for (const ByteView part : parts) sum = mix(sum, part);
  words.push_back(sum);
  return words;
}

Error io_error(const char* what, const std::string& path) {
  return {Fault::io, std::string(what) + " " + path + ": " + std::strerror(errno)};
}

bool write_all(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), SSIZE_MAX));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool read_all(int fd, char* out, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::read(fd, out, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

//! Closes on every way out.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<SpillRef> SpillFile::write(std::string path, const Payload& payload) {
  const std::vector<ByteView> parts = parts_of(payload);
  const std::vector<std::uint64_t> words = prelude_of(payload, parts);
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (file.fd < 0) return io_error("cannot create", path);

  const ByteView prelude(reinterpret_cast<const char*>(words.data()), words.size() * kWord);
  bool written = write_all(file.fd, prelude);
  std::uint64_t bytes = prelude.size();
  for (const ByteView part : parts) {
    written = written && write_all(file.fd, part);
    bytes += part.size();
  }
  if (!written) {
    const Error error = io_error("cannot write", path);
    ::unlink(path.c_str());
    return error;
  }
  return SpillRef(new SpillFile(std::move(path), bytes));
}

SpillFile::~SpillFile() { ::unlink(path_.c_str()); }

Result<protocol::PayloadRef> SpillFile::read() const {
  const Error corrupt{Fault::io, "spill file " + path_ + " is damaged"};
  Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return io_error("cannot open", path_);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return io_error("cannot stat", path_);
  if (static_cast<std::uint64_t>(info.st_size) != bytes_) return corrupt;

  std::vector<std::uint64_t> words(kFixedWords);
  if (!read_all(file.fd, reinterpret_cast<char*>(words.data()), kFixedWords * kWord)) return corrupt;
  const std::uint64_t count = words[0];
  if (count == 0 || count > bytes_ / kWord || words[1] > 3) return corrupt;
  words.resize(kFixedWords + count + 1);
  if (!read_all(file.fd, reinterpret_cast<char*>(words.data() + kFixedWords), (count + 1) * kWord)) {
    return corrupt;
  }
  std::uint64_t sum = mix(0, ByteView(reinterpret_cast<const char*>(words.data()),
                                      (kFixedWords + count) * kWord));
  auto payload = std::make_shared<Payload>();
  payload->kind = static_cast<Payload::Kind>(words[1]);
  std::uint64_t left = bytes_ - words.size() * kWord;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t length = words[kFixedWords + i];
    if (length > left) return corrupt;
    left -= length;
    auto block = std::make_shared_for_overwrite<char[]>(length);
    if (!read_all(file.fd, block.get(), length)) return corrupt;
    const ByteView view(block.get(), length);
    sum = mix(sum, view);
    Slice part(std::move(block), view);
    if (i == 0) {
      payload->header = std::move(part);
    } else {
      payload->frames.push_back(std::move(part));
    }
  }
  if (left != 0 || sum != words.back()) return corrupt;
  return protocol::PayloadRef(std::move(payload));
}

}  // namespace worker
