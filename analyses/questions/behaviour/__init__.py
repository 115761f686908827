"""Answers of a run: how right they are, and by which rule."""
