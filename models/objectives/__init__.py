"""What a model is taught, and how its answers are judged."""
