"""Many runs beside each other."""
