"""What the lab asks of one run, of labelled lines and of many runs; and the command `lab`."""
