"""How right a run is, and by which rule."""
