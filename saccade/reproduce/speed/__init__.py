"""The paper's speed figure, `saccade reproduce speed`: a network on the whole image against the same on K patches.

systems  which systems are timed, at which sizes, and what the paper prints for them
measure  systems → timings, and what they were taken with
steps    a step of training, the CNN's and top-K's, and what of an answer is the feature network
results  timings → `speed.csv`, `speed.md`, `speed.png`; and back from the CSV          figure   timings → the plot
"""
