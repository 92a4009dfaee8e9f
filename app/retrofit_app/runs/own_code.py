"""Networks built by the user's own code: whether this server may import it."""

from retrofit_core.networks import user_code

from .records import runs_folder


def closed(*archs: str | None) -> list[str]:
    """The factories among these architectures whose modules this process may not import."""
    return [
        name for arch in archs for name in user_code.names_in(arch) if not user_code.is_permitted(name, runs_folder())
    ]
