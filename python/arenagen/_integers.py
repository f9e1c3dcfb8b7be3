"""Integers on their way to C, which ctypes would wrap silently."""

from __future__ import annotations

import operator
from typing import SupportsIndex


def integer(name: str, value: SupportsIndex, bits: int, *, signed: bool = False) -> int:
    """Give an integer that fits into so many bits. Raises TypeError and OverflowError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not least <= number <= most:
        raise OverflowError(f"{name} must be {least} to {most}, got {number}")
    return number
