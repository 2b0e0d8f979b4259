"""What runs say together: tables, plots, one page."""
