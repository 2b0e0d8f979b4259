"""What a board can say about itself: sensors, energy, memory."""
