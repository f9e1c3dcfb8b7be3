"""Exceptions that nobody can catch: they were raised in a callback of C's."""

from __future__ import annotations

import logging
import sys
import types
from typing import Any

log = logging.getLogger("arenagen")


def unraisable(raised: BaseException, of: object) -> None:
    """Hand an exception to sys.unraisablehook, as the interpreter does."""
    for kind in tuple.__subclasses__():
        if kind.__name__ == "UnraisableHookArgs":
            args: Any = kind((type(raised), raised, raised.__traceback__, None, of))
            break
    else:
        args = types.SimpleNamespace(
            exc_type=type(raised), exc_value=raised, exc_traceback=raised.__traceback__, err_msg=None, object=of
        )
    hook = getattr(sys, "unraisablehook", None) or sys.__unraisablehook__
    try:
        hook(args)
    except BaseException:
        log.exception("sys.unraisablehook failed at %r of %r", raised, of)
