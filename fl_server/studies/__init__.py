"""Published tables as studies: what is run for them, how far that is, and what came out."""
