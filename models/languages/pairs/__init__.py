"""Pairs of a source and its target, written as one word: source > target."""
