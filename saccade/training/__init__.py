"""Training: the Lightning task, schedules, callbacks, and the warm-up of the scorer."""
