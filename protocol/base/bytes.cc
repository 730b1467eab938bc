#include "protocol/base/bytes.h"

#include <cstring>

#include "protocol/base/result.h"

namespace protocol {

Slice Slice::copy_of(ByteView bytes) {
  if (bytes.empty()) return {};
  auto block = std::make_shared_for_overwrite<char[]>(bytes.size());
  std::memcpy(block.get(), bytes.data(), bytes.size());
  const ByteView view(block.get(), bytes.size());
  return Slice(std::move(block), view);
}

Slice Slice::own(std::string bytes) {
  auto block = std::make_shared<const std::string>(std::move(bytes));
  const ByteView view(*block);
  return Slice(std::move(block), view);
}

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::truncated: return "truncated";
    case Fault::too_large: return "too large";
    case Fault::too_deep: return "too deep";
    case Fault::bad_type: return "bad type";
    case Fault::unknown_op: return "unknown op";
    case Fault::io: return "i/o error";
    case Fault::closed: return "closed";
    case Fault::timeout: return "timeout";
  }
  return "?";
}

std::string Error::text() const { return std::string(fault_name(fault)) + ": " + where; }

}  // namespace protocol
