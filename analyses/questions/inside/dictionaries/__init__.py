"""Sparse dictionaries of a run's activations: what they find of what is known of its words."""
