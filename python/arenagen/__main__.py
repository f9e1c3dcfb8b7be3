"""python -m arenagen doctor."""

from __future__ import annotations

import argparse
import sys

from . import __version__
from ._arena import doctor
from .errors import ArenaError, LibraryError


def main() -> int:
    """Run a command. 0 is success, 1 a problem that was told, 2 a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m arenagen", description="Look at what GPU memory arenas have on this machine.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="command")
    commands.add_parser("doctor", help="tell, for every backend, what is there, what works, and what to do about the rest")
    parser.parse_args()
    try:
        report, usable = doctor()
    except (ArenaError, LibraryError) as error:
        print(f"arenagen: {error}", file=sys.stderr)
        return 1
    print(report, end="")
    if not usable:
        print("arenagen: no GPU backend has a device that can be used", file=sys.stderr)
    return 0 if usable else 1


if __name__ == "__main__":
    sys.exit(main())
