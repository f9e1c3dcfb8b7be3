"""The library inside a Python interpreter: interrupts, faulthandler, threads, exit."""

import atexit
import ctypes
import faulthandler
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading

from check import abi, create_active, equal, live, load, main, ok, on_threads, scenario, use, use_fully


def expect_interrupt(library):
    """Checks that SIGINT becomes a KeyboardInterrupt while the library is used."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            use(library, 1)
    except KeyboardInterrupt:
        pass


@scenario
def an_interrupt_is_a_keyboard_interrupt():
    library = load()
    arena = create_active(library)
    for _ in range(20):
        expect_interrupt(library)
    equal(True, live(library, arena) <= 20)


@scenario
def an_interrupt_before_the_first_call():
    library = load()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            library.arenagen_abi_version()
    except KeyboardInterrupt:
        use_fully(library)


@scenario
def an_interrupt_while_threads_are_inside():
    library = load()
    create_active(library)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            use(library, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        except KeyboardInterrupt:
            pass
    stop.set()
    for thread in threads:
        thread.join()


def run(code):
    """Runs Python code in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


@scenario
def an_interrupt_that_nobody_catches_ends_the_process():
    done = run("import os, signal; from check import *; use_fully(load()); os.kill(os.getpid(), signal.SIGINT); input()")
    equal(-signal.SIGINT, done.returncode)
    equal(True, "KeyboardInterrupt" in done.stderr)


# What is done in every order: "L" loads the library, "E" enables faulthandler and "D" disables it.
ORDERS = sorted({"".join(order) for steps in ("LE", "LED", "LEDE") for order in itertools.permutations(steps)})

STEPS = {
    "E": "faulthandler.enable()",
    "D": "faulthandler.disable()",
    "L": "library = load(); use_fully(library)",
}


def in_order(order, end):
    return run("\n".join(["import ctypes, faulthandler", "from check import *", *(STEPS[step] for step in order), end]))


@scenario
def faulthandler_in_every_order():
    for order in ORDERS:
        done = in_order(order, "use_fully(library); print('used')")
        if done.returncode or done.stdout != "used\n" or done.stderr:
            raise AssertionError(f"{order}: {done}")


@scenario
def faulthandler_still_tells_of_faults_of_the_host():
    for order in ORDERS:
        enabled = order.rfind("E") > order.rfind("D")
        done = in_order(order, "ctypes.string_at(8)")
        equal((order, -signal.SIGSEGV), (order, done.returncode))
        equal((order, enabled), (order, "Fatal Python error: Segmentation fault" in done.stderr))


@scenario
def faulthandler_may_dump_a_traceback():
    faulthandler.register(signal.SIGUSR1, file=open(os.devnull, "w"), all_threads=True)
    library = load()
    create_active(library)
    for _ in range(50):
        os.kill(os.getpid(), signal.SIGUSR1)
        use(library, 1)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback(nowhere, all_threads=True)
    use_fully(library)


@scenario
def signal_handlers_in_python_run():
    hits = []
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, lambda got, frame: hits.append(got))
    library = load()
    create_active(library)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        os.kill(os.getpid(), number)
        while number not in hits:
            use(library, 1)
    while hits.count(signal.SIGALRM) < 50:
        use(library, 1)
    signal.setitimer(signal.ITIMER_REAL, 0)


@scenario
def a_signal_that_is_waited_for_arrives():
    library = load()
    create_active(library)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for _ in range(20):
        os.kill(os.getpid(), signal.SIGTERM)
        use(library, 1)
        equal(signal.SIGTERM, signal.sigwait({signal.SIGTERM}))


@scenario
def threads_use_the_library():
    library = load()
    arena = create_active(library)
    on_threads(8, lambda number: use(library, 200))
    equal(0, live(library, arena))


@scenario
def a_thread_frees_what_another_allocated():
    library = load()
    arena = create_active(library)
    addresses = [[] for _ in range(8)]
    on_threads(8, lambda number: addresses[number].extend(library.mx_malloc(100, 0, None) for _ in range(50)))
    ok(library, library.arenagen_set_active_any(0))
    on_threads(8, lambda number: [library.mx_free(address, 100, 0, None) for address in addresses[7 - number]])
    equal(0, live(library, arena))


@scenario
def errors_are_each_threads_own():
    library = load()
    barrier = threading.Barrier(8)

    def look(number):
        equal(abi.Status.INVALID_HANDLE, library.arenagen_arena_close(1000 + number))
        barrier.wait()
        error = abi.Error()
        ok(library, library.arenagen_last_error(error))
        equal(True, error.text.decode().startswith(f"{1000 + number:#x} "))

    on_threads(8, look)


@scenario
def callbacks_in_python_back_an_arena():
    library = load()
    calls = []

    def allocate(user, address, size, handle):
        calls.append(("allocate", address, size))
        handle[0] = address + 1
        return 0

    def release(user, address, size, handle):
        calls.append(("release", address, size, handle))
        return 0

    types = dict(abi.CallbackOptions._fields_)
    kept = types["allocate"](allocate), types["release"](release)
    options = abi.CallbackOptions(base=1 << 30, allocate=kept[0], release=kept[1])
    arena = abi.Arena()
    ok(library, library.arenagen_arena_create_callbacks(options, arena))
    ok(library, library.arenagen_set_active(0, arena))
    equal(1 << 30, library.mx_malloc(5, 0, None))
    library.mx_free(1 << 30, 5, 0, None)
    granule = 2 << 20
    equal([("allocate", 1 << 30, granule), ("release", 1 << 30, granule, (1 << 30) + 1)], calls)
    ok(library, library.arenagen_arena_release(arena))


@scenario
def the_interpreter_ends_with_everything_open():
    library = load()
    create_active(library)
    ctypes.memset(library.mx_malloc(100, 0, None), 1, 100)


@scenario
def calls_at_exit():
    library = load()
    arena = create_active(library)
    address = library.mx_malloc(100, 0, None)

    def at_exit():
        use(library)
        library.mx_free(address, 100, 0, None)
        if live(library, arena):
            os._exit(1)

    atexit.register(at_exit)


class Tensor:
    """Frees its memory when it is collected, in the end by the interpreter that goes down."""

    def __init__(self, library):
        self.free, self.address = library.mx_free, library.mx_malloc(100, 0, None)
        self.itself = self

    def __del__(self):
        self.free(self.address, 100, 0, None)


@scenario
def frees_of_an_interpreter_that_goes_down():
    library = load()
    create_active(library)
    gc.disable()
    sys.tensors = [Tensor(library) for _ in range(100)]


@scenario
def the_interpreter_ends_while_threads_are_inside():
    library = load()
    create_active(library)
    started = threading.Semaphore(0)

    def work():
        started.release()
        while True:
            use(library, 1)

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    for _ in range(4):
        started.acquire()


main()
