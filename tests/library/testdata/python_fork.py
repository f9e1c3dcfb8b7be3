"""Children of a Python process that uses the library."""

import multiprocessing
import os
import subprocess
import sys
import threading

from check import abi, create_active, equal, last_error, live, load, main, on_threads, scenario, use, use_fully

library = load() if len(sys.argv) > 1 else None


def see_refusals():
    """Checks that the library says that it was forked."""
    equal(None, library.mx_malloc(1, 0, None))
    equal(abi.Status.FORKED, last_error(library).status)
    equal(True, "must use exec" in last_error(library).text.decode())
    equal(abi.Status.FORKED, library.arenagen_arena_create(abi.ArenaOptions(), abi.Arena()))
    equal(abi.Status.FORKED, library.arenagen_diagnose(abi.Diagnostics()))
    library.mx_free(1, 1, 0, None)
    return "forked"


def fork_children(count):
    for _ in range(count):
        child = os.fork()
        if child == 0:
            see_refusals()
            os._exit(0)
        equal((child, 0), os.waitpid(child, 0))


@scenario
def children_before_the_first_call():
    fork_children(100)
    use_fully(library)


@scenario
def children_after_use():
    create_active(library)
    use(library)
    fork_children(100)
    use(library)


@scenario
def children_of_a_thread_while_others_are_inside():
    arena = create_active(library)
    stop = threading.Event()

    def work(number):
        if number == 0:
            fork_children(100)
            stop.set()
        while not stop.is_set():
            use(library, 1)

    on_threads(4, work)
    equal(0, live(library, arena))


@scenario
def a_child_that_ends_as_programs_do():
    create_active(library)
    child = os.fork()
    if child == 0:
        see_refusals()
        sys.exit(0)
    equal((child, 0), os.waitpid(child, 0))


def refused(number):
    return see_refusals()


def serves(number):
    use_fully(library)
    return "serves"


@scenario
def a_pool_that_forks():
    create_active(library)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        equal(["forked"] * 40, pool.map(refused, range(40)))
    use(library)


@scenario
def a_pool_that_spawns():
    create_active(library)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        equal(["serves"] * 4, pool.map(serves, range(4)))


@scenario
def a_pool_of_a_server():
    create_active(library)
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        equal(["serves"] * 4, pool.map(serves, range(4)))


@scenario
def programs_that_are_executed():
    create_active(library)
    code = "from check import *; use_fully(load()); print('used')"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    for _ in range(3):
        equal("used\n", subprocess.check_output([sys.executable, "-c", code], text=True, env=environment))


if __name__ == "__main__":
    main()
