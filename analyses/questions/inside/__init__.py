"""What the activations of a run hold."""
