"""One question a file, asked of one run; each leaves a table, a chart and a sentence."""
