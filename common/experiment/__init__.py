"""From a file to a checked experiment, and to its algorithm, model and participants."""
