"""A run folder → what people look at: the HTML report, pictures of where the model looked, comparisons of runs.

Nothing here is imported before it is used, so that the command line's help waits neither for torch nor for matplotlib.
"""
