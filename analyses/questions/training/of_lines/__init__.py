"""Which training lines made a run say what it says? Methods beside trainings without lines."""
