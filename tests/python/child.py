"""Runs programs in processes of their own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out"

# How a backend's library finds a simulator in place of the vendor's driver.
# The Makefile writes beside each simulator which backend it is for.
SIMULATORS = {
    note.name[1:]: {f"ARENAGEN_{note.name[1:].upper()}_LIBRARY": str(note.parent / note.read_text(encoding="utf-8").strip())}
    for note in sorted((OUT / "sim").glob(".*"))
}
BACKENDS = {"stub": {}, **SIMULATORS}


@functools.cache
def _abilities() -> dict[str, dict[str, bool]]:
    report = subprocess.run([OUT / "bin" / "arenactl", "doctor", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    matrix = json.loads(report.stdout)["matrix"]
    return {row["name"]: row["backends"] for row in matrix["operations"] + matrix["capabilities"]}


def those_with(ability: str) -> list[str]:
    """The backends whose drivers do an operation of the contract, or have a capability."""
    return [backend for backend in BACKENDS if _abilities()[ability][backend]]


def simulated_with(ability: str, has: bool = True) -> list[str]:
    """Those of them that have a simulator, or those that lack the ability."""
    return [backend for backend in SIMULATORS if _abilities()[ability][backend] is has]


def run(program: str, *args: str, env: dict[str, str] | None = None, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a Python program, which is killed at the deadline."""
    # From 3.12 on os.fork warns in a process with threads, which is what these tests are about.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning", **(env or {})}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        env=environment, capture_output=True, text=True, timeout=timeout, **options,
    )


def said(program: str, *args: str, **options: Any) -> str:
    """Gives what a program printed that ended well and complained about nothing."""
    ended = run(program, *args, **options)
    assert (ended.returncode, ended.stderr) == (0, ""), f"{ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout
