"""What crosses the broker, and the connection to it."""
