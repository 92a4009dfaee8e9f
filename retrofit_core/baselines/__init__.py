"""Methods that the paper compares with; one file each."""

from .averaging import average

__all__ = ["average"]
