"""What a finished fusion looks like: clusters, errors, shared energy, loss landscapes."""
