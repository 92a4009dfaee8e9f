"""What can be fused: data sets, checkpoints, uploads, and how good networks are."""
