"""Work done side by side, on the cores of this machine or by the workers of a Dask cluster."""
