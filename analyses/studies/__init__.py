"""Many runs at once: seeds, sweeps, leaderboards."""
