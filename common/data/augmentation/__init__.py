"""How missing samples are made from existing ones."""
