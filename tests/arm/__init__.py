"""Emulated arm64 boards: `make arm-test` (root, up to an hour)."""
