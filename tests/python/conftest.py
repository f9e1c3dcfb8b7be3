"""What all tests of the Python package share."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", help="append a line for each test to a file, as go test -v prints them")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes how a test ended: a failure in any part counts, and a test that passed counts once."""
    if _results is None or (report.passed and report.when != "call"):
        return
    outcome = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}[report.outcome]
    reason = f" {report.longrepr[2]}" if report.skipped and isinstance(report.longrepr, tuple) else ""
    with open(_results, "a", encoding="utf-8") as file:
        file.write(f"--- {outcome}: {report.nodeid}{reason}\n")


_results: Any = None


def pytest_configure(config: pytest.Config) -> None:
    global _results
    _results = config.getoption("--results")
