"""What a run measured: its lines, sums and summary."""
