"""Circuits: what each part reads from each other, and a small set of edges that does the work."""
