"""Studies of many runs: seeds, sweeps, leaderboards."""
