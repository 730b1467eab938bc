"""The pass of clustered I/O: loads and stores of neighbouring blocks become buffers.

It runs on the graph as Dask's own optimisation left it and looks inside fused tasks. There every
loader has its final index (slices are pushed into loads), only needed tasks are left, and one form
covers HighLevelGraph layers, array expressions and plain graphs alike. A loader inside a fused task
takes its block out of the buffer instead, so blocks need no task of their own.

Keys that were in the graph stay and mean the same. What the pass cannot handle it leaves as it is.
"""
