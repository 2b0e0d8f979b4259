"""Datasets of users' own: tables, arrays, folders of images, and functions.

A source is read as named arrays (`sources.py` and what it imports); a schema says what they
mean, or is made from them (`schema.py`); with it they become samples (`encode.py`).
"""
