"""What labels mean: one label of an image, several, a level, a number, or several questions.

labels.py   text in a table → which task it is, and which names a label has; imports no torch
task.py     what every task brings: targets, loss, answers, metrics; `make_task` finds one by name
single.py, multi.py, ordinal.py, regression.py, questions.py   one task each
"""
