"""How good the gradients of the selectors are, `saccade reproduce gradient-quality`: nothing is trained for it.

exact_gradient  the truth, by quadrature
gradient_study  cosine with the truth and variance of every gradient        gradient_chart  → a picture

Nothing here imports torch: the command line lists it without.
"""

NAME = "gradient-quality"
TITLE = "Cosine with the exact gradient and variance of every selector, no training"
