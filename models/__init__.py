"""Languages, models, objectives, training and runs: all that is trained."""
