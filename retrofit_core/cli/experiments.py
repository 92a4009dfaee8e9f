"""retrofit reproduce"""

from .application import command
from .checks import check_folder
from .requests import ReproduceRequest


@command("reproduce")
def reproduce_command(request: ReproduceRequest) -> None:
    """Measure the paper's tables (train missing parents, fuse, evaluate), and print them beside the paper's.

    Results in --folder or --results are not measured again. With --report, nothing is measured; if there are no results, those
    in the project's folder are shown.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`

    Example: `retrofit reproduce vgg11-noniid --report`
    """
    if not request.tables:
        from ..experiments.tables import TABLES

        raise ValueError(f"name a table, or all: {', '.join(TABLES)}.")
    check_folder(request.folder, "--folder")
    from . import reproducing

    reproducing.reproduce(request)
