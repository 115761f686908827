"""Dictionaries of activations: sparse autoencoders, transcoders, their peers, and their scores."""
