"""Models of a run: the first one, the file of the last one, and where two differ."""
