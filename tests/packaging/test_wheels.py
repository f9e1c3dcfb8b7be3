"""The wheels that make wheels builds: what is in them, and what they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "out" / "wheels"
RELEASE = re.search(r'^RELEASE = "(.+)"', (ROOT / "python/arenagen/_abi.py").read_text(), re.MULTILINE)[1]  # type: ignore[index]
EXPORTS = [line.split()[1] for line in (ROOT / "include/arenagen.abi").read_text().splitlines() if line.startswith("function ")]
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
GLIBC = (2, 17)


def wheel(machine: str) -> Path:
    (found,) = WHEELS.glob(f"arenagen-{RELEASE}-py3-none-*_{machine}.whl")
    return found


@pytest.fixture(scope="session", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def library(machine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that a wheel carries."""
    folder = tmp_path_factory.mktemp(machine)
    with zipfile.ZipFile(wheel(machine)) as archive:
        return Path(archive.extract("arenagen/libarenagen.so", folder))


def printed(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def test_name_has_the_tag(machine: str) -> None:
    assert wheel(machine).name == f"arenagen-{RELEASE}-py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.whl"


def test_contents(machine: str) -> None:
    with zipfile.ZipFile(wheel(machine)) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"arenagen-{RELEASE}.dist-info/METADATA").decode())
        tags = archive.read(f"arenagen-{RELEASE}.dist-info/WHEEL").decode()
    package = {f"arenagen/{file.name}" for file in (ROOT / "python/arenagen").iterdir() if file.suffix in (".py", ".typed")}
    info = {f"arenagen-{RELEASE}.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    assert names == package | info | {"arenagen/libarenagen.so"}
    assert (metadata["Name"], metadata["Version"], metadata["Requires-Python"]) == ("arenagen", RELEASE, ">=3.9")
    assert metadata.get_all("Requires-Dist") is None
    assert "Root-Is-Purelib: false" in tags
    assert wheel(machine).stat().st_size < 3 << 20


def test_library(machine: str, library: Path) -> None:
    header = printed("readelf", "--wide", "--file-header", "--dynamic", "--program-headers", library)
    assert f"Machine:                           {MACHINES[machine]}" in header
    assert "Library soname: [libarenagen.so.1]" in header
    assert "NODELETE" in header and "GNU_RELRO" in header
    assert "TEXTREL" not in header and "RPATH" not in header and "RUNPATH" not in header
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", header))
    assert needed <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2"}


def test_symbols(library: Path) -> None:
    symbols = printed("readelf", "--wide", "--dyn-syms", library)
    exported = re.findall(r" (?:FUNC|OBJECT) +GLOBAL +DEFAULT +\d+ (\w+)@@(\w+)", symbols)
    assert sorted(name for name, version in exported if version == "ARENAGEN_1" and name != "ARENAGEN_1") == sorted(EXPORTS)
    versions = {tuple(map(int, found.split("."))) for found in re.findall(r"@GLIBC_([\d.]+)", symbols)}
    assert versions and max(versions) <= GLIBC


INSIDE = """
import ctypes, os, sys
import arenagen
assert os.path.dirname(arenagen.__file__) == os.path.dirname(arenagen.library_path()), arenagen.library_path()
with arenagen.Arena("stub", total=1 << 34) as arena:
    address = arena.malloc(100)
    arena.buffer(address, 100).view[:5] = b"hello"
    assert ctypes.string_at(address, 5) == b"hello"
    child = os.fork()
    if child == 0:
        try:
            arena.malloc(1)
        except arenagen.ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    arena.free(address)
from arenagen import _alloc_ext
capsule = _alloc_ext.arena_create(1 << 40, 1 << 30, 4096, lambda *_: 1, lambda *_: None)
print(_alloc_ext.arena_malloc(capsule, 1) == 1 << 40, arenagen.__version__)
"""


def interpreters() -> list[str]:
    return printed(ROOT / "scripts" / "interpreters", sys.executable).split()


@pytest.mark.parametrize("python", interpreters())
def test_installs_without_a_network_or_a_compiler(python: str, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    if subprocess.run([python, "-m", "venv", folder], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{python} has no venv: apt-get install python3-venv")
    environment: dict[str, Any] = {**os.environ, "PATH": str(folder / "bin"), "PYTHONWARNINGS": "ignore"}
    environment.pop("PYTHONPATH", None)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel(os.uname().machine)]
    subprocess.run(install, env=environment, check=True)
    ended = subprocess.run(
        [folder / "bin" / "python", "-c", INSIDE], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.returncode) == (f"True {RELEASE}\n", 0), ended.stderr


def test_a_musl_interpreter_is_offered_nothing() -> None:
    packaging = pytest.importorskip("pip._vendor.packaging.tags", reason="pip's own copy of packaging is not there")
    musl = {f"musllinux_1_2_{name}" for name in MACHINES}
    accepted = {str(tag) for platform in musl for tag in packaging.cpython_tags((3, 11), platforms=[platform])}
    accepted |= {str(tag) for platform in musl for tag in packaging.compatible_tags((3, 11), platforms=[platform])}
    for name in MACHINES:
        tags = {f"py3-none-{platform}" for platform in wheel(name).stem.split("-")[-1].split(".")}
        assert accepted and not tags & accepted


HOST = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <arenagen.h>

#define FIND(name) __typeof__(name) *name##_found = (__typeof__(name) *)dlsym(library, #name)

int main(int argc, char **argv)
{
  void *library = dlopen(argv[argc - 1], RTLD_NOW);
  arenagen_arena_options options = ARENAGEN_ARENA_OPTIONS_INIT;
  arenagen_arena arena = 0;
  void *address;

  if (library == NULL)
    return puts(dlerror()), 1;
  FIND(arenagen_arena_create);
  FIND(arenagen_set_active);
  FIND(arenagen_arena_release);
  FIND(mx_malloc);
  FIND(mx_free);
  options.backend = "stub";
  options.total = INT64_C(1) << 30; /* an emulator has no more addresses */
  if (arenagen_arena_create_found(&options, &arena) != 0 || arenagen_set_active_found(0, arena) != 0)
    return puts("no arena"), 1;
  address = mx_malloc_found(1000, 0, NULL);
  if (address == NULL)
    return puts("no memory"), 1;
  memset(address, 1, 1000);
  mx_free_found(address, 1000, 0, NULL);
  printf("%d\n", arenagen_arena_release_found(arena));
  return 0;
}
"""


def test_the_library_for_arm64_runs(tmp_path: Path) -> None:
    if shutil.which("qemu-aarch64") is None or shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no emulator or compiler: apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    source, program = tmp_path / "host.c", tmp_path / "host"
    source.write_text(HOST)
    subprocess.run(["aarch64-linux-gnu-gcc", "-I", ROOT / "include", "-o", program, source, "-ldl"], check=True)
    with zipfile.ZipFile(wheel("aarch64")) as archive:
        file = archive.extract("arenagen/libarenagen.so", tmp_path)
    assert printed("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", program, file) == "0\n"
