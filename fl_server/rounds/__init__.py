"""The round machine: decides, and touches nothing."""
