"""The whole testbed on one machine, and faults for it."""
