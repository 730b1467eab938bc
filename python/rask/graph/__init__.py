"""What a graph process does with a graph: open it, expand it, order it, pack it.

Read in the order of a submission: link, expand, walk, clustered, annotations, ordering, emit, template, pack.
Nothing here keeps state from one submission to the next but caches of what is importable.
"""
