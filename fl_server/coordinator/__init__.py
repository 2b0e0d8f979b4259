"""The shells around the round machine: over a broker, or in one process."""
