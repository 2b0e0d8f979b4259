"""The figures of a report, by matplotlib (the extra `plots`)."""
