"""What an experiment means and needs, and whether its settings make sense together."""
