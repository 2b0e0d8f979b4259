"""The coordinator: rounds, selection, aggregation, results."""
