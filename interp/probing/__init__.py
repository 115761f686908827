"""Variables that are read off an activation, erased from it, or moved along it."""
