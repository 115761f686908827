"""Things to take along from a run: its report as one file, and the code behind each answer."""
