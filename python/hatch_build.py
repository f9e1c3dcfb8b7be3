"""Puts the library into a wheel, and gives the wheel the tag of what the library needs.

The library is the one that ARENAGEN_WHEEL_LIBRARY names, with the tag in ARENAGEN_WHEEL_PLATFORM: so make wheels does. Without
them it is built for this machine by make in the checkout, and the wheel fits this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "libarenagen.so"


class LibraryHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Find or build the library, and say where it goes."""
        given = os.environ.get("ARENAGEN_WHEEL_LIBRARY")
        platform = os.environ.get("ARENAGEN_WHEEL_PLATFORM", sysconfig.get_platform().replace("-", "_").replace(".", "_"))
        library = Path(given) if given else built(Path(self.root).resolve().parent)
        # An editable install uses the one in the checkout, which make keeps up to date.
        if version != "editable":
            build_data["force_include"][str(library)] = f"arenagen/{NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


def built(checkout: Path) -> Path:
    """Build the library in a checkout."""
    if not (checkout / "Makefile").is_file():
        raise RuntimeError(f"there is no checkout at {checkout}: install a wheel, or build from a clone of the whole repository")
    if shutil.which("make") is None:
        raise RuntimeError("make is missing, which builds the library: apt-get install make, or install a wheel")
    made = subprocess.run(
        ["make", "-C", str(checkout), f"out/lib/{NAME}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if made.returncode != 0:
        raise RuntimeError(f"the library could not be built:\n{made.stdout}")
    return checkout / "out" / "lib" / NAME
