#include "worker/binding/convert.h"

#include <cstring>
#include <string>

#include "protocol/base/limits.h"
#include "protocol/wire/writer.h"

namespace worker {

namespace nb = nanobind;
using protocol::ByteView;
using protocol::Slice;

namespace {

constexpr std::size_t kShareFrom = 4096;  // below this a copy is cheaper than a share

int frame_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  static char nothing;  // Arrow aborts on a null pointer, even of an empty buffer
  const auto* frame = nb::inst_ptr<Frame>(self);
  char* data = frame->bytes.empty() ? &nothing : const_cast<char*>(frame->bytes.data());
  return PyBuffer_FillInfo(view, self, data,
                           static_cast<Py_ssize_t>(frame->bytes.size()), /*readonly=*/0, flags);
}

PyType_Slot frame_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(frame_getbuffer)},
    {0, nullptr},
};

//! Reads one msgpack key. Keys are checked where they enter the process, so this trusts their form;
//! their depth is bounded by limits.h.
class KeyReader {
 public:
  explicit KeyReader(ByteView bytes) : bytes_(bytes) {}

  nb::object read() {
    const auto tag = static_cast<unsigned char>(take(1)[0]);
    if (tag <= 0x7f) return nb::int_(static_cast<int>(tag));
    if (tag >= 0xe0) return nb::int_(static_cast<int>(static_cast<signed char>(tag)));
    if ((tag & 0xe0) == 0xa0) return text(tag & 0x1f);
    if ((tag & 0xf0) == 0x90) return tuple(tag & 0x0f);
    switch (tag) {
      case 0xc4: return bytes_object(take(number(1)));
      case 0xc5: return bytes_object(take(number(2)));
      case 0xc6: return bytes_object(take(number(4)));
      case 0xca: return real(number(4));
      case 0xcb: return real8(number(8));
      case 0xcc: return unsigned_(number(1));
      case 0xcd: return unsigned_(number(2));
      case 0xce: return unsigned_(number(4));
      case 0xcf: return unsigned_(number(8));
      case 0xd0: return nb::int_(static_cast<long long>(static_cast<std::int8_t>(number(1))));
      case 0xd1: return nb::int_(static_cast<long long>(static_cast<std::int16_t>(number(2))));
      case 0xd2: return nb::int_(static_cast<long long>(static_cast<std::int32_t>(number(4))));
      case 0xd3: return nb::int_(static_cast<long long>(static_cast<std::int64_t>(number(8))));
      case 0xd9: return text(number(1));
      case 0xda: return text(number(2));
      case 0xdb: return text(number(4));
      case 0xdc: return tuple(number(2));
      case 0xdd: return tuple(number(4));
      default: throw nb::value_error("not a task key");
    }
  }

 private:
  ByteView take(std::size_t count) {
    if (bytes_.size() < count) throw nb::value_error("truncated task key");
    const ByteView taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    for (const char c : take(width)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  nb::object text(std::size_t count) {
    const ByteView utf8 = take(count);
    PyObject* object = PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()),
                                            "surrogateescape");
    if (!object) throw nb::python_error();
    return nb::steal(object);
  }
  nb::object tuple(std::size_t count) {
    if (count > bytes_.size()) throw nb::value_error("truncated task key");
    nb::list items;
    for (std::size_t i = 0; i < count; ++i) items.append(read());
    return nb::tuple(items);
  }
  static nb::object unsigned_(std::uint64_t value) {
    return nb::int_(static_cast<unsigned long long>(value));
  }
  static nb::object real(std::uint64_t bits) {
    const auto narrow = static_cast<std::uint32_t>(bits);
    float value;
    std::memcpy(&value, &narrow, sizeof value);
    return nb::float_(static_cast<double>(value));
  }
  static nb::object real8(std::uint64_t bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return nb::float_(value);
  }

  ByteView bytes_;
};

void put_number(std::string& out, std::uint64_t value, int width) {
  for (int shift = (width - 1) * 8; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

void put_header(std::string& out, std::size_t count, int fix, std::size_t fix_max,
                std::initializer_list<std::pair<int, int>> tags) {
  if (fix >= 0 && count <= fix_max) {
    out.push_back(static_cast<char>(fix | static_cast<int>(count)));
    return;
  }
  for (const auto& [tag, width] : tags) {
    if (width < 8 && count >> (width * 8)) continue;
    out.push_back(static_cast<char>(tag));
    put_number(out, count, width);
    return;
  }
}

//! Writes the msgpack form of a key; canonical_key() makes it canonical afterwards.
void put_key(std::string& out, PyObject* object, unsigned depth) {
  if (depth > protocol::kLimits.msgpack_depth_max) throw nb::type_error("task key nested too deep");
  if (PyUnicode_Check(object)) {
    const nb::object utf8 = nb::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape"));
    if (!utf8.is_valid()) throw nb::python_error();
    const auto size = static_cast<std::size_t>(PyBytes_Size(utf8.ptr()));
    put_header(out, size, 0xa0, 31, {{0xd9, 1}, {0xda, 2}, {0xdb, 4}});
    out.append(PyBytes_AsString(utf8.ptr()), size);
  } else if (PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    out.push_back(static_cast<char>(0xd3));
    put_number(out, static_cast<std::uint64_t>(value), 8);
  } else if (PyFloat_Check(object)) {
    const double value = PyFloat_AsDouble(object);
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    out.push_back(static_cast<char>(0xcb));
    put_number(out, bits, 8);
  } else if (PyBytes_Check(object)) {
    const auto size = static_cast<std::size_t>(PyBytes_Size(object));
    put_header(out, size, -1, 0, {{0xc4, 1}, {0xc5, 2}, {0xc6, 4}});
    out.append(PyBytes_AsString(object), size);
  } else if (PyTuple_Check(object)) {
    const auto size = static_cast<std::size_t>(PyTuple_Size(object));
    put_header(out, size, 0x90, 15, {{0xdc, 2}, {0xdd, 4}});
    for (std::size_t i = 0; i < size; ++i) {
      put_key(out, PyTuple_GetItem(object, static_cast<Py_ssize_t>(i)), depth + 1);
    }
  } else {
    throw nb::type_error("a task key is a str, int, float, bytes or a tuple of those");
  }
}

}  // namespace

void bind_frame(nb::module_& module) {
  nb::class_<Frame>(module, "Frame", nb::type_slots(frame_slots),
                    "Bytes that arrived from a peer, shown without a copy.")
      .def("__len__", [](const Frame& frame) { return frame.bytes.size(); });
}

nb::object key_object(protocol::KeyView key) { return KeyReader(key.bytes).read(); }

protocol::Key key_of(nb::handle object) {
  std::string spelled;
  put_key(spelled, object.ptr(), 0);
  auto key = protocol::canonical_key(spelled);
  if (!key) throw nb::type_error(key.error().text().c_str());
  return std::move(*key);
}

nb::bytes bytes_object(ByteView bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::object buffer_object(const Slice& slice) {
  if (slice.size() < kShareFrom) return bytes_object(slice.view());
  return nb::cast(Frame{slice});
}

nb::list frame_list(const std::vector<Slice>& frames) {
  nb::list out;
  for (const Slice& frame : frames) out.append(nb::cast(Frame{frame}));
  return out;
}

std::vector<Slice> slices_of(nb::handle sequence, DropQueue& drops) {
  std::vector<Slice> out;
  for (nb::handle item : sequence) {
    Slice slice = drops.export_buffer(item.ptr());
    if (PyErr_Occurred()) throw nb::python_error();
    // A small share would keep a whole Python object alive for a few bytes.
    out.push_back(slice.size() < kShareFrom ? Slice::copy_of(slice.view()) : std::move(slice));
  }
  return out;
}

//! What stock writes before a pickle of one frame.
Slice pickle_header() {
  protocol::MessageWriter writer;
  writer.map(4);
  writer.field("serializer");
  writer.literal("pickle");
  writer.field("writeable");
  writer.array(0);
  writer.field("compression");
  writer.array(1);
  writer.nil();
  writer.field("num-sub-frames");
  writer.uinteger(1);
  return writer.take_payload()->header;
}

nb::object payload_object(const protocol::PayloadRef& payload) {
  if (!payload) return nb::none();
  return nb::make_tuple(static_cast<int>(payload->kind), bytes_object(payload->header.view()),
                        frame_list(payload->frames));
}

protocol::PayloadRef payload_of(nb::handle object, DropQueue& drops) {
  if (object.is_none()) return nullptr;
  auto payload = std::make_shared<protocol::Payload>();
  if (PyBytes_Check(object.ptr())) {
    static const Slice kHeader = pickle_header();
    const auto pickle = nb::borrow<nb::bytes>(object);
    payload->kind = protocol::Payload::Kind::serialized;
    payload->header = kHeader;
    payload->frames.push_back(Slice::copy_of(ByteView(pickle.c_str(), pickle.size())));
    return payload;
  }
  payload->kind = static_cast<protocol::Payload::Kind>(nb::cast<int>(object[0]));
  const nb::bytes header = nb::cast<nb::bytes>(object[1]);
  payload->header = Slice::copy_of(ByteView(header.c_str(), header.size()));
  payload->frames = slices_of(object[2], drops);
  return payload;
}

}  // namespace worker
