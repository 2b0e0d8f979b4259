"""The real shells on a broker in memory: `Coordinator` and `Daemon` with real files, moved one
happening at a time, so that any interleaving can be played.

Nothing is written a second time here: only training is replaced (see `tests/hashing_pool.py`).
"""
