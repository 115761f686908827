"""One lens a page: what goes on in the model."""
