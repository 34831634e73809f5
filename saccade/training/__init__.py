"""Training: recipes, phases, the loop, and what watches it."""
