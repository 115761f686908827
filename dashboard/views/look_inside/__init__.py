"""The inside of the model: one lens (a way to look inside) on each page."""
