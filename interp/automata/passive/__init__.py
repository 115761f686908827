"""Automata from labelled words alone: by merging states, or by annealing small tables."""
