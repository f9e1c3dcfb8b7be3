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
        # Python refuses to print one of more than 4300 digits.
        shown = number if number.bit_length() <= 1024 else f"one of {number.bit_length()} bits"
        raise OverflowError(f"{name} must be {least} to {most}, got {shown}")
    return number
