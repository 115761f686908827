"""Languages, and networks that learn them."""
