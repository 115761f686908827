"""Many runs in one table."""
