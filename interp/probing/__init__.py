"""What can be read off an activation, erased from it, or moved along it."""
