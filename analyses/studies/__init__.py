"""Many runs at once: seeds, comparisons, leaderboards."""
