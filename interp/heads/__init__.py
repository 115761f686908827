"""Attention heads: where they look, and what they add to the logits."""
