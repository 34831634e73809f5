"""The paper's tables as commands: `saccade reproduce TABLE` trains what is missing and writes ours beside theirs.

tables   which rows there are, what the paper has for them, and by which recipes they are run
jobs     (row, seed) → a run folder and the command that fills it
runner   runs the commands side by side
results  finished runs → numbers, CSV, Markdown          figures   → plots and pictures
speed    the speed figure, for which nothing is trained
"""
