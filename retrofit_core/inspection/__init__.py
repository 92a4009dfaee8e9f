"""Inspection of finished fusions: groups, errors, explained variance, loss landscapes."""
