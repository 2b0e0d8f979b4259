"""The hardware of a board: sensors, energy, memory."""
