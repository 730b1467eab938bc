"""The four applications of the SplIter paper, side by side on stock Dask and on rask."""
