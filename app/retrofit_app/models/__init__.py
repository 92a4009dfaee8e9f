"""What can be fused: data sets, checkpoints, uploads; and a run's networks."""
