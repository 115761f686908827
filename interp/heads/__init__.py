"""Attention heads: where they look, what they add, and what they are needed for."""
