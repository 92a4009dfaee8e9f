"""Networks: tracing, cutting into levels, permutation symmetries, architectures and checkpoints."""
