"""Loading the library into a Python interpreter."""

import _ctypes
import ctypes
import os
import resource
import select
import subprocess
import sys

from check import abi, equal, last_error, load, main, scenario, use_fully


def load_under(soft, hard=None):
    """Loads the library under a limit on open files, and checks it right after that and after calls."""
    limits = soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard is None else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    library = ctypes.CDLL(os.environ["LIBRARY"])
    equal(limits, resource.getrlimit(resource.RLIMIT_NOFILE))
    abi.declare(library)
    use_fully(library)
    equal(limits, resource.getrlimit(resource.RLIMIT_NOFILE))
    return limits


@scenario
def a_soft_limit_of_256_files_stays():
    load_under(256)


@scenario
def a_soft_limit_of_1024_files_stays():
    load_under(1024)


@scenario
def a_soft_limit_at_the_hard_limit_stays():
    load_under(512, 512)


@scenario
def a_child_inherits_the_limit_as_it_was():
    limits = load_under(300)
    code = "import resource; print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    equal("%d %d\n" % limits, subprocess.check_output([sys.executable, "-c", code], text=True))


@scenario
def select_works_on():
    load_under(1024)
    reader, writer = os.pipe()
    os.write(writer, b"x")
    equal(([reader], [], []), select.select([reader], [], [], 0))


@scenario
def the_bindings_fit_the_library():
    library = load()
    equal(abi.ABI_MAJOR << 16 | abi.ABI_MINOR, library.arenagen_abi_version())
    equal(abi.RELEASE, library.arenagen_version().decode())
    equal("stub", library.arenagen_backend_name().decode())
    for status in abi.Status:
        equal(status.name.lower(), library.arenagen_status_name(status).decode())


@scenario
def it_works_on_after_dlclose():
    library = load()
    use_fully(library)
    _ctypes.dlclose(library._handle)
    use_fully(library)
    again = load()
    equal(library._handle, again._handle)
    use_fully(again)


@scenario
def a_second_library_is_refused_with_the_reason():
    first, second = load("LIBRARY"), load("TWIN")
    arena = abi.Arena()
    equal(abi.Status.SECOND_LIBRARY, second.arenagen_arena_create(abi.ArenaOptions(), arena))
    equal(True, os.environ["LIBRARY"] in last_error(second).text.decode())
    equal(None, second.mx_malloc(1, 0, None))
    second.mx_free(1, 1, 0, None)
    use_fully(first)


@scenario
def an_environment_that_python_changes_does_not_matter():
    os.environ.update(GOGC="off", GOMAXPROCS="1", GOMEMLIMIT="1", GODEBUG="gctrace=1")
    use_fully(load())


@scenario
def many_open_files_stay_open():
    files = [open(os.devnull) for _ in range(200)]
    use_fully(load())
    for file in files:
        equal("", file.read())


main()
