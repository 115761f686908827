"""Words that a model makes by itself, symbol by symbol."""
