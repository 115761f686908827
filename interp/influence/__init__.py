"""Which training lines made a network say what it says? Lenses of data, and their scores."""
