"""What is trained: languages, models, objectives, training, runs."""
