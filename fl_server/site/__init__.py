"""A site's relay: one board to the coordinator, the coordinator to the site's own boards."""
