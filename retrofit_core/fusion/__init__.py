"""Algorithm 1: tasks, moments, groups, targets, fits and results."""
