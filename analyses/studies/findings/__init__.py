"""Findings: the small tables that a repository keeps, and the pages that are written from them."""
