"""What a run is, in a few numbers: its loss, how fast it learned, how its training went."""
