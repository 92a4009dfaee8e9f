"""The loss landscape: loss and accuracy on the plane through three networks, on paths between them, and around them.

`Landscape(...).plan(networks, through, images)` checks everything and predicts the number of evaluations and their time;
`run(plan)` yields what is known so far.
"""

from .candidates import ALIGNMENTS, networks_of
from .landscape import Landscape, Plan
from .mixtures import Mixtures
from .plane import Plane
from .survey import Marker, Path, Rise, Survey, keep
