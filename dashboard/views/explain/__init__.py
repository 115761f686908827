"""Which symbols decide, and which explanation methods find them."""
