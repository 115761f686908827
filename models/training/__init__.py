"""Training: one run, or many seeds at once."""
