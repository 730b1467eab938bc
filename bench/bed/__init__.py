"""The benchmark bed: clusters, meters, rows and reports. See bench/README.md."""
