"""Getting a board to run."""
