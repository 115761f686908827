"""Sweeps: many runs that one file describes."""
