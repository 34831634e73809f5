"""The paper's tables as commands: `saccade reproduce TABLE` trains what is missing and writes ours beside theirs.

tables   which rows there are, what the paper has for them, and by which recipes they are run
jobs     (row, seed) → a run folder and the command that fills it
runner   runs the commands side by side
results  finished runs → numbers, CSV, Markdown          figures   → plots and pictures
orders   numbers of rows → which row is above which     stand_in  a full recipe without its data
speed    the speed figure, for which nothing is trained  rehearsal three steps of full rows: memory, hours
"""
