"""retrofit reproduce | report"""

from .application import command
from .checks import check_folder
from .requests import ReportRequest, ReproduceRequest


@command("reproduce")
def reproduce_command(asked: ReproduceRequest) -> None:
    """Measure the paper's tables: train missing parents, fuse, evaluate. Results in --folder or --results are not
    measured again.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`
    """
    if not asked.list:
        if not asked.tables:
            raise ValueError("name a table, or all. `retrofit reproduce --list` shows them.")
        check_folder(asked.folder, "--folder")
    from . import reproducing

    return reproducing.list_tables(asked) if asked.list else reproducing.reproduce(asked)


@command("report")
def report_command(asked: ReportRequest) -> None:
    """Print the paper's tables next to our results: differences, ranks, and which of the paper's claims hold.

    If neither --folder nor --results contains results, the command uses those in the project's folder. To report on
    checkpoints that you gave to `reproduce`, repeat those options here, or use a bundle written with them.

    Example: `retrofit report vgg11-noniid --format csv --out tables.csv`

    To keep results with your code: `retrofit report vgg11-noniid --bundle results`
    """
    from . import reproducing

    reproducing.print_report(asked)
