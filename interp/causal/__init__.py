"""What carries a difference: patching, edges, circuits, and the metrics they move."""
