"""Causes of a difference: patching, ablation, interchange, and the metrics they move."""
