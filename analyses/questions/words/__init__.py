"""Which symbols of a word decide."""
