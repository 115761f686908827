"""The activations of a run, and what they hold."""
