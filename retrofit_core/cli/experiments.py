"""retrofit reproduce | report"""

from .application import command
from .checks import check_folder
from .requests import ReportRequest, ReproduceRequest


@command("reproduce")
def reproduce_command(asked: ReproduceRequest) -> None:
    """Measure the paper's tables: train what is missing, fuse, measure; what is measured, in --folder or --results, is not
    measured again.

    Example: `retrofit reproduce vgg11-noniid --scale small --columns 2-way`
    """
    if not asked.list:
        if not asked.tables:
            raise ValueError("name a table, or all. `retrofit reproduce --list` shows them.")
        check_folder(asked.folder, "--folder")
    from . import measured, reproducing

    if asked.list:
        return measured.list_tables(asked.folder, asked.results, asked.scale)
    return reproducing.reproduce(asked)


@command("report")
def report_command(asked: ReportRequest) -> None:
    """Print the paper's tables beside what was measured: differences, ranks, and which of its claims hold.

    Where neither --folder nor --results hold any results, those that come with the project are taken (in its folder). Results
    of checkpoints that were given to `reproduce` need the same options here, or a bundle that was written with them.

    Example: `retrofit report vgg11-noniid --format latex --out tables.tex`

    Keep results beside code: `retrofit report vgg11-noniid --bundle results --with-images`
    """
    from . import reproducing

    reproducing.print_report(asked)
