"""`make demo`: a stock client on rask-scheduler, every line compared with stock Dask beside it.

Two clusters run side by side on loopback: rask's scheduler and a stock one, each with two stock
workers. `shows.py` holds what is shown, `speed.py` what is measured; this file runs and prints.
"""
