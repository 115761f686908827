"""The questions that are asked of one run, one in each file. An answer is a table, a chart and a
sentence."""
