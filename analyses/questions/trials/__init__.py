"""What interventions need of a run: words, prefixes, sites, and what is right by its language."""
