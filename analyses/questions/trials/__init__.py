"""Material of interventions on a run: words, prefixes, sites, and its language's right answers."""
