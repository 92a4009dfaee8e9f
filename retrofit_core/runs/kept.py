"""Work on a finished run that is kept in a folder of its own: its settings, and the name of its folder. No torch.

The folder has settings.json beside what the work writes. It is named after the settings and the content of the run, so that
the same work is found again and never done twice.
"""

import hashlib
import json
import shlex
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from ..system import files

SETTINGS = "settings.json"


class KeptConfig(ABC):
    """What is asked of a finished run, as it can be asked for again."""

    verb: ClassVar[str]
    """The command that does it, with `--record`"""
    version: ClassVar[int]
    """Raised when the numbers of such work change"""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """In plain JSON types."""

    @abstractmethod
    def words(self) -> list[str]:
        """The options of the command that are not as by default; record and output aside."""

    def decisive(self) -> dict[str, Any]:
        """The settings that decide numbers, in plain JSON types."""
        return self.to_json()

    def command(self, record: str) -> str:
        """The command line that does it from the folder in which the record lies."""
        return shlex.join(["retrofit", self.verb, "--record", record, *self.words()])

    def key(self, record: str | Path) -> str:
        """Ten characters that two pieces of such work share exactly if they have the same numbers.

        Raises:
            ValueError: the record cannot be read.
        """
        facts = json.dumps([self.decisive(), content_of(record), self.version], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:10]

    def save(self, folder: str | Path, record: str | Path) -> None:
        """Write settings.json, which also says of what run the work is."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        files.write(Path(folder) / SETTINGS, json.dumps(self._stored(record), indent=1))

    def check_same(self, folder: str | Path, record: str | Path) -> None:
        """Refuse a folder that holds other work.

        Raises:
            ValueError: its settings are others, or it is of another run.
        """
        try:
            stored = json.loads((Path(folder) / SETTINGS).read_text())
        except (OSError, ValueError):
            return
        if stored != self._stored(record):
            raise ValueError(f"{folder} holds a {self.verb} with other settings, or of another run. Name a new folder.")

    def _stored(self, record: str | Path) -> dict[str, Any]:
        return {**self.to_json(), "of": content_of(record)}


def content_of(record: str | Path) -> str:
    """A digest of all that work on a finished run depends on: parents, data, fused network.

    Raises:
        ValueError: the record cannot be read, or the run is not finished.
    """
    folder = Path(record)
    try:
        content = json.loads((folder / "config.json").read_text())
        status = json.loads((folder / "status.json").read_text())
        facts = [content["config"], content.get("inputs"), status["checksums"]["fused.safetensors"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder.name} is no record of a finished run. Finish it first.") from error
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
