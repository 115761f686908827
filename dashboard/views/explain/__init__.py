"""Which symbols decide, and which method says so rightly."""
