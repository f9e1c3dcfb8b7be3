"""Measures the C pair in a Python process, against an extension that calls Python, and prints JSON.

    python3 bench/python.py <what>

busy: from a C thread while a Python thread is busy; callbacks: against gil.c; latency: with 8 threads; calls: of the package.
Each what runs in a process of its own, from the root. The Makefile beside this file builds what it loads.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import threading
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import arenagen  # noqa: E402

BASE, TOTAL = 1 << 45, 1 << 44
ROUNDS = 41

timer = ctypes.CDLL(str(ROOT / "out/bench/libtimer.so"))
timer.time_pairs.restype = timer.time_threads.restype = ctypes.c_double

Pair = tuple[ctypes.c_void_p, ctypes.c_void_p]


def pair(library: ctypes.CDLL, malloc: str, free: str) -> Pair:
    """Gives the addresses of two functions."""
    return ctypes.cast(getattr(library, malloc), ctypes.c_void_p), ctypes.cast(getattr(library, free), ctypes.c_void_p)


def ours() -> tuple[Pair, Callable[[], None]]:
    """Gives the pair in record mode, and what puts a fresh arena behind it."""
    arenas: list[arenagen.Arena] = []

    def renew() -> None:
        arenas.append(arenagen.Arena("stub", options={"mode": "record"}, drain="none", total=TOTAL))
        arenagen.set_active(arenas[-1], 0)
        for old in arenas[:-1]:
            old.release()
        del arenas[:-1]

    renew()
    return pair(ctypes.CDLL(arenagen.library_path()), "mx_malloc", "mx_free"), renew


def reference() -> tuple[Pair, Callable[[], None]]:
    library = ctypes.CDLL(str(ROOT / "out/bench/libreference.so"))

    def renew() -> None:
        timer.open_reference(library.reference_open, ctypes.c_uint64(BASE), ctypes.c_uint64(TOTAL))

    renew()
    return pair(library, "reference_malloc", "reference_free"), renew


def callbacks() -> tuple[Pair, Callable[[], None]]:
    """Gives the pair that calls Python: two callables that do nothing but answer."""
    path = str(ROOT / "out/bench/libgil.so")
    opened = ctypes.PyDLL(path).gil_open
    opened.argtypes = [ctypes.py_object, ctypes.py_object, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64]
    opened.restype = None

    def renew() -> None:
        opened(lambda address, size: 1, lambda address, size, handle: None, BASE, TOTAL, 2 << 20)

    renew()
    return pair(ctypes.CDLL(path), "mx_malloc", "mx_free"), renew


def on_this_thread(subject: Pair, pairs: int) -> float:
    return float(timer.time_pairs(*subject, pairs))


def on_c_threads(subject: Pair, threads: int, pairs: int) -> tuple[float, float]:
    waited = ctypes.c_double()
    return float(timer.time_threads(*subject, threads, pairs, ctypes.byref(waited))), waited.value


def busy() -> Any:
    """Rounds on one C thread, in turns with Python idle and with a Python thread that never lets its core or the GIL go.

    A round in which the C thread had to wait for a core does not count: with as many busy threads as cores that is the kernel's doing.
    """
    (subject, renew), go, stop = ours(), threading.Event(), False

    def spin() -> None:
        while not stop:
            go.wait()
            for _ in range(1000):
                pass

    spinning = threading.Thread(target=spin)
    spinning.start()
    times: dict[bool, list[float]] = {False: [], True: []}
    taken = 0
    while min(map(len, times.values())) < ROUNDS and taken < 40 * ROUNDS:
        for is_busy, kept in times.items():
            renew()
            (go.set if is_busy else go.clear)()
            ns, waited = on_c_threads(subject, 1, 20_000)
            if waited < 0.05:
                kept.append(ns)
        taken += 1
    stop = True
    go.set()
    spinning.join()
    if min(map(len, times.values())) < ROUNDS:
        sys.exit("the machine is too busy: too often the thread had to wait for its core")
    idle, while_busy = (statistics.median(times[key]) for key in (False, True))
    return {"idle_ns": idle, "busy_ns": while_busy, "ratio": while_busy / idle, "rounds": ROUNDS, "taken": taken}


def against_callbacks() -> Any:
    """Each thread case, in turns: the reference, ours, and the extension that calls Python."""
    subjects = {"reference": reference(), "arenagen": ours(), "callbacks": callbacks()}
    cases: dict[str, Callable[[Pair, int], float]] = {
        "Python's main thread": on_this_thread,
        "a C thread": lambda subject, pairs: on_c_threads(subject, 1, pairs)[0],
        "two C threads": lambda subject, pairs: on_c_threads(subject, 2, pairs)[0],
    }
    answer = []
    for case, measure in cases.items():
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(ROUNDS):
            for name, (subject, renew) in subjects.items():
                renew()
                pairs = 500 if name == "callbacks" and measure is not on_this_thread else 10_000
                times[name].append(measure(subject, pairs))
        medians = {name: statistics.median(kept) for name, kept in times.items()}
        answer.append({"case": case, **medians, "ratio": medians["callbacks"] / medians["arenagen"]})
    return answer


def latency() -> Any:
    """Times each malloc with 8 threads: more than there are cores. The medians over the rounds of each round's percentiles."""
    threads, mallocs, rounds = 8, 200_000, 5
    each = (ctypes.c_uint64 * (threads * mallocs))()
    answer: dict[str, dict[str, float]] = {}
    subjects = {"reference": reference(), "arenagen": ours()}
    found: dict[str, list[list[int]]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, (subject, renew) in subjects.items():
            renew()
            timer.time_each(*subject, threads, mallocs, each)
            ordered = sorted(each)
            found[name].append([ordered[int(len(ordered) * share)] for share in (0.5, 0.99, 0.999)])
    for name, all_rounds in found.items():
        columns = zip(*all_rounds)
        answer[name] = dict(zip(("p50", "p99", "p99.9"), (float(statistics.median(column)) for column in columns)))
    return {**answer, "ratio": answer["arenagen"]["p99.9"] / answer["reference"]["p99.9"], "threads": threads}


def calls() -> Any:
    """One question of the package, and an empty ctypes call, in turns."""
    import timeit

    arena = arenagen.Arena("stub", options={"mode": "record"}, total=TOTAL)
    number, nothing = 20_000, timer.nothing
    questions, empty = [], []
    for _ in range(ROUNDS):
        questions.append(timeit.timeit(lambda: arena.used_bytes, number=number) / number * 1e9)
        empty.append(timeit.timeit(lambda: nothing(), number=number) / number * 1e9)
    question, call = statistics.median(questions), statistics.median(empty)
    return {"used_bytes_ns": question, "empty_ns": call, "difference_us": (question - call) / 1000}


WHAT = {"busy": busy, "callbacks": against_callbacks, "latency": latency, "calls": calls}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in WHAT:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(WHAT)}")
    print(json.dumps(WHAT[sys.argv[1]]()))
