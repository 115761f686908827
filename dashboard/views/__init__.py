"""The pages, one in each file, in folders by what a reader wants. Each has a function ``show``."""
