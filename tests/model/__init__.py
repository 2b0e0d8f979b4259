"""A small model of the whole system: both real machines, and the world around them as values.

One coordinator, some boards and a broker live in one process. Everything that a shell does is
here one *move*: handling a message, performing one action, sending one part, finishing a job.
Whoever drives the world chooses the next move, so any interleaving can be played, and anybody
can be killed between any two moves: memory is lost then, and `CoordinatorDisk` and `BoardDisk`
stay. Training is a hash of what went into it, so the numbers of two runs can be compared.
"""
