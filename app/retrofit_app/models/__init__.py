"""What can be fused: data sets, checkpoints; and a run's networks."""
