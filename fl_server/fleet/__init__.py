"""Boards and networks as they are: a fleet file, and what it means for the time of a round."""
