"""All runs, and one word that the user types."""
