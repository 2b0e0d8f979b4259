"""What the page shows of the runs of a folder."""
