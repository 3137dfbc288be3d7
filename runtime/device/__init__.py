"""The board, or the simulated one: which is used, what it tells of itself, and what may be wrong with it."""
