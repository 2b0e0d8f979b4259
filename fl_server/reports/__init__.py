"""Runs compared: tables, plots, one page."""
