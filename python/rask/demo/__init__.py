"""`make demo`: a stock client on rask, every line compared with stock Dask beside it.

Three clusters of two workers run side by side on loopback: all rask, rask's scheduler with stock
workers, and all stock. `shows.py` holds what is shown, `speed.py` what is measured; `__main__.py`
runs and prints.
"""
