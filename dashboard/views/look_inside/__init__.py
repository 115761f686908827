"""What goes on in the model: one lens (a way to look inside) on each page."""
