"""The board daemon: simulates clients, trains, keeps their state."""
