"""How to reach a broker, and how to trust it."""
