"""Files of lines and of automata in the shapes that people have."""
