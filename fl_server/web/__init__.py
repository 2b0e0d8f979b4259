"""The web page of a run."""
