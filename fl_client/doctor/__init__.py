"""Whether a board is ready, and what to do if not."""
