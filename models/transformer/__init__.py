"""The hooked Transformer, part by part."""
