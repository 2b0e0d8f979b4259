"""How missing samples are made from those that are there."""
