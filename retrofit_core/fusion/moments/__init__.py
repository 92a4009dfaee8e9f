"""The moment form: sums over rows from which grouping, fit and errors of an affine level follow (docs/method.md).

Legend: x (N, p) input rows of the fused level, the last column 1 if it has a bias; z (N, m) concatenated output rows of all
parents; xx = x'x, xz = x'z, zz = z'z, sz = sum of z. They are sums, not means, as are the paper's ridge strengths.
"""

from .errors import approximation_error, cross_error, grouping_error, squared_misses
from .solve import Solution, product_dtype, ridge_strength, solve
from .sums import Moments, MomentSums, Rows, cholesky, dual_bytes, dual_is_cheaper
