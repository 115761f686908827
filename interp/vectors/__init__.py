"""Vectors of words: from counts, from small networks, and what directions between them mean."""
