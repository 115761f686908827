"""Whole words: one vector for each, and what it holds."""
