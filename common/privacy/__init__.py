"""Sums of updates that tell nothing of a single one: exact arithmetic, masks, noise."""
