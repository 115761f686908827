"""Work side by side: the cores of this machine, or the workers of a Dask cluster."""
