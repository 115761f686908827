"""Questions of the lab about one run, labelled lines and many runs; and the command `lab`."""
