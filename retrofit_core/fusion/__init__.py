"""Algorithm 1: what is to be fused, its sums, groups, targets and fits, and what comes out."""
