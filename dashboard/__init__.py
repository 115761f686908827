"""The window: shows what analyses wrote, and asks anew about the user's own words."""
