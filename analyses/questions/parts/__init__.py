"""Which heads and edges of a run carry its answer."""
