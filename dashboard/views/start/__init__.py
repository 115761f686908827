"""All runs, and one word typed in."""
