"""Runs programs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out"

# How a backend's library finds a simulator in place of the vendor's driver.
SIMULATORS = {
    "cuda": {"ARENAGEN_CUDA_LIBRARY": str(OUT / "sim" / "libcuda.so.1")},
    "hip": {"ARENAGEN_HIP_LIBRARY": str(OUT / "sim" / "libamdhip64.so.7")},
    "musa": {"ARENAGEN_MUSA_LIBRARY": str(OUT / "sim" / "libmusa.so.4")},
}
BACKENDS = {"stub": {}, **SIMULATORS}


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
