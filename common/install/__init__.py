"""Getting a board to run: which torch it can use, and the files an installation consists of."""
