"""Networks and local training, with torch."""
