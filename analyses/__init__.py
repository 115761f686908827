"""What is asked: of one run, of labelled lines, of many runs; and the command `lab`."""
