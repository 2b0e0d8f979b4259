"""Training on all samples in one place."""
