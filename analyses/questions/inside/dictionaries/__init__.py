"""What sparse dictionaries of a run's activations find of what is known of its words."""
