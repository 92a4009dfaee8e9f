"""What can be fused: data sets, checkpoints, uploads; and how accurate networks are."""
