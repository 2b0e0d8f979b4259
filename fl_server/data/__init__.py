"""What `fl-server data` shows and prepares."""
