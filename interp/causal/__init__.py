"""What carries a difference: patching, ablation, interchange, and the metrics they move."""
