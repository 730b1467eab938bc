"""The clustered I/O bench; see ../README.md."""
