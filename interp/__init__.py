"""How a model is seen: lenses on any model with TransformerLens' hook interface."""
