"""The board's machine: decides, and touches nothing."""
