"""One page a file, in folders by what a reader wants; each has a function ``show``."""
