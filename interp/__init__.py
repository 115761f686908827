"""Lenses on any model with TransformerLens' hook interface."""
