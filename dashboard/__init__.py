"""The dashboard: it shows what the analyses wrote, and asks them about words that a user types."""
