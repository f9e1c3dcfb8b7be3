"""The library inside a Python process: fork, threads, signals, exit, other libraries, and the environment."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Any

import pytest
from child import OUT, ROOT, SIMULATORS, run, said

import arenagen
from arenagen import _abi, _library

OPEN = """
import ctypes, os, signal, sys, threading, time
import arenagen
arena = arenagen.Arena("stub", total=1 << 42)
arenagen.set_active(arena, 0)
lib = ctypes.CDLL(arenagen.library_path())
lib.mx_malloc.restype = ctypes.c_void_p
lib.mx_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
lib.mx_free.restype = None
lib.mx_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
"""


def opened(program: str) -> str:
    return OPEN + textwrap.dedent(program)


def compiled(target: Path, source: str) -> str:
    """Makes a library of some C."""
    file = target.with_suffix(".c")
    file.write_text(textwrap.dedent(source))
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-pthread", "-o", target, file], check=True)
    return str(target)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library whose threads allocate and free."""
    return compiled(tmp_path_factory.mktemp("many") / "libmany.so", """
        #include <pthread.h>
        #include <stdatomic.h>
        #include <string.h>
        #include <sys/types.h>

        static void *(*allocate)(ssize_t, int, void *);
        static void (*release)(void *, ssize_t, int, void *);
        static int rounds;
        static atomic_int pairs, failures, left;

        static void *work(void *unused)
        {
          for (int i = 0; rounds == 0 || i < rounds; i++) {
            char *memory = allocate(100, 0, 0);
            if (memory)
              memset(memory, 1, 100);
            else
              failures++;
            release(memory, 100, 0, 0);
            pairs++;
          }
          left--;
          return unused;
        }

        /* With 0 rounds they never end. */
        int begin(void *(*a)(ssize_t, int, void *), void (*r)(void *, ssize_t, int, void *), int n, int threads)
        {
          pthread_attr_t small;
          pthread_attr_init(&small);
          pthread_attr_setstacksize(&small, 64 << 10);
          pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
          allocate = a, release = r, rounds = n, left = threads;
          for (pthread_t thread; threads > 0; threads--)
            if (pthread_create(&thread, &small, work, 0))
              return 1;
          return 0;
        }

        int done(void) { return pairs; }
        int failed(void) { return failures; }
        int running(void) { return left; }
    """)


class TestFork:
    def test_a_child_is_told_and_can_end(self) -> None:
        program = opened("""
            address = arena.malloc(1)
            view = arena.buffer(address, 1).view
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    told = 0
                    for call in (lambda: arena.malloc(1), arena.stats, arena.registered_range, lambda: arenagen.Arena("stub"),
                                 lambda: arenagen.set_active(None, 0), arena.close, arena.release, arenagen.doctor):
                        try:
                            call()
                        except arenagen.ForkedError:
                            told += 1
                    lib.mx_free(address, 1, 0, None)
                    assert lib.mx_malloc(1, 0, None) is None
                    del view, arena
                    sys.exit(told)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            print(arena.live_count)
        """)
        assert said(program) == "8\n" * 20 + "1\n"

    def test_a_child_leaves_a_with_statement(self) -> None:
        program = """
            import os, sys, arenagen
            with arenagen.Arena("stub") as arena:
                arena.malloc(1)
                child = os.fork()
                if child == 0:
                    try:
                        arena.malloc(1)
                    except arenagen.ForkedError as error:
                        assert (error.status, repr(arena)) == ("forked", f"<arenagen.Arena {arena.handle:#x} of the parent process>")
                        sys.exit(7)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), arena.live_count)
        """
        assert said(program) == "7 1\n"

    def test_while_another_thread_loads(self) -> None:
        # The thread stands still in the middle of it.
        program = """
            import os, threading, arenagen
            inside, go, real = threading.Event(), threading.Event(), os.confstr
            def confstr(name):
                if threading.current_thread() is threading.main_thread():
                    return real(name)
                inside.set()
                go.wait()
                return real(name)
            os.confstr = confstr
            thread = threading.Thread(target=arenagen.Arena, args=("stub",))
            thread.start()
            inside.wait()
            child = os.fork()
            if child == 0:
                arenagen.Arena("stub").malloc(1)
                os._exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            go.set()
            thread.join()
        """
        assert said(program) == "3\n"

    def test_a_pool_of_forked_processes(self) -> None:
        program = opened("""
            import multiprocessing
            def work(number):
                assert lib.mx_malloc(1, 0, None) is None
                return number * number
            if __name__ == "__main__":
                with multiprocessing.get_context("fork").Pool(4) as pool:
                    print(sum(pool.map(work, range(100))))
                arena.free(lib.mx_malloc(1, 0, None))
                print(arena.live_count)
        """)
        assert said(program) == "328350\n0\n"

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_executors(self, method: str, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text(opened("""
            import concurrent.futures, math, multiprocessing
            if __name__ == "__main__":
                with concurrent.futures.ThreadPoolExecutor(8) as threads:
                    addresses = list(threads.map(lambda n: lib.mx_malloc(n + 1, 0, None), range(200)))
                assert len(set(addresses)) == 200 and None not in addresses
                context = multiprocessing.get_context(sys.argv[1])
                with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as processes:
                    print(list(processes.map(math.factorial, range(5))))
                with concurrent.futures.ThreadPoolExecutor(8) as threads:
                    list(threads.map(lambda a: lib.mx_free(a, 1, 0, None), addresses))
                print(arena.live_count)
        """))
        ended = subprocess.run([sys.executable, program, method], capture_output=True, text=True, timeout=120, check=False)
        assert (ended.stdout, ended.returncode) == ("[1, 1, 2, 6, 24]\n0\n", 0), ended.stderr

    def test_before_anything_is_loaded(self) -> None:
        program = """
            import os, arenagen
            child = os.fork()
            with arenagen.Arena("stub") as arena:
                arena.malloc(1)
            if child:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        assert said(program) == "0\n"


class TestExit:
    @pytest.mark.parametrize("backend", ["stub", *SIMULATORS])
    @pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "os._exit(0)", "raise SystemExit"])
    def test_with_live_arenas(self, backend: str, end: str) -> None:
        program = """
            import os, sys, arenagen
            arenas = [arenagen.Arena(sys.argv[1], total=1 << 30) for _ in range(3)]
            for arena in arenas:
                arena.malloc(1)
            arenagen.set_active(arenas[0], 0)
            arenagen.set_active(arenas[1])
            exec(sys.argv[2])
        """
        assert said(program, backend, end, env=SIMULATORS.get(backend)) == ""

    def test_with_views_and_consumers(self) -> None:
        program = opened("""
            try:
                import numpy
                array = numpy.from_dlpack(arena.buffer(arena.malloc(100), 100))
            except ImportError:
                pass
            view = arena.buffer(arena.malloc(100), 100).view
            capsule = arena.buffer(arena.malloc(100), 100).__dlpack__(max_version=(1, 0))
        """)
        assert said(program) == ""

    def test_with_threads_of_c_inside(self, many: str) -> None:
        program = opened("""
            many = ctypes.CDLL(sys.argv[1])
            assert many.begin(lib.mx_malloc, lib.mx_free, 0, 8) == 0
            while many.done() < 1000:
                pass
            sys.exit(5)
        """)
        ended = run(program, many)
        assert (ended.returncode, ended.stderr) == (5, "")

    def test_with_an_exception(self) -> None:
        ended = run(opened("view = arena.buffer(arena.malloc(1), 1).view\n1 / 0\n"))
        assert ended.returncode == 1 and ended.stderr.endswith("ZeroDivisionError: division by zero\n")

    def test_with_threads_inside(self) -> None:
        program = opened("""
            started = threading.Barrier(5)
            def work():
                started.wait()
                while True:
                    lib.mx_free(lib.mx_malloc(1, 0, None), 1, 0, None)
            for _ in range(4):
                threading.Thread(target=work, daemon=True).start()
            started.wait()
        """)
        assert said(program) == ""

    def test_frees_come_after_everything_else(self) -> None:
        # Registered before the package, and so called after all that it may have registered itself.
        program = "import atexit\natexit.register(lambda: late())\n" + opened("""
            address = lib.mx_malloc(1, 0, None)
            def late():
                lib.mx_free(address, 1, 0, None)
                another = lib.mx_malloc(1, 0, None)
                print(arena.live_count, another is not None)
        """)
        assert said(program) == "1 True\n"


class TestThreads:
    def test_of_c_with_small_stacks(self, many: str) -> None:
        program = opened("""
            many = ctypes.CDLL(sys.argv[1])
            assert many.begin(lib.mx_malloc, lib.mx_free, 500, 16) == 0
            # Python's threads are busy meanwhile.
            while many.running():
                arena.free(arena.malloc(1))
            stats = arena.stats()
            print(many.done(), many.failed(), stats.live, stats.unknown_frees, stats.created == stats.released)
        """)
        assert said(program, many) == "8000 0 0 0 True\n"


class TestSignals:
    def test_an_interrupt_arrives(self) -> None:
        program = opened("""
            signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what a shell runs in the background
            begun = threading.Event()
            def interrupt():
                begun.wait()
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=interrupt).start()
            try:
                begun.set()
                while True:
                    arena.free(arena.malloc(1))
            except KeyboardInterrupt:
                print("interrupted", arena.live_count <= 1)
        """)
        assert said(program) == "interrupted True\n"

    @pytest.mark.parametrize("number", ["SIGTERM", "SIGUSR1", "SIGALRM", "SIGCHLD", "SIGPROF"])
    def test_handlers_of_python_are_called(self, number: str) -> None:
        program = opened("""
            seen = []
            signal.signal(getattr(signal, sys.argv[1]), lambda *_: seen.append(1))
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
            while not seen:
                arena.free(arena.malloc(1))
            print("seen")
        """)
        assert said(program, number) == "seen\n"

    @pytest.mark.parametrize("order", ["enable load", "load enable", "enable load disable", "load enable disable"])
    def test_faulthandler(self, order: str) -> None:
        program = """
            import ctypes, faulthandler, sys
            import arenagen
            for step in sys.argv[1].split():
                if step == "load":
                    arena = arenagen.Arena("stub", total=1 << 30)
                else:
                    getattr(faulthandler, step)()
            try:
                arena.malloc(1 << 62)
            except arenagen.ExhaustedError:
                print("refused", flush=True)
            arena.free(arena.malloc(1))
            ctypes.string_at(0)
        """
        ended = run(program, order)
        assert ended.stdout == "refused\n"
        assert ended.returncode == -signal.SIGSEGV
        assert ("Segmentation fault" in ended.stderr and 'File "<string>"' in ended.stderr) == (not order.endswith("disable"))


class TestGIL:
    """One thread has the GIL and wants a lock. The other has the lock and wants memory: the shape of PyTorch's allocator."""

    # The steps are in C: a Python thread could lose the GIL between two of them.
    STEPS = """
        #include <pthread.h>
        #include <sched.h>
        #include <stdatomic.h>
        #include <sys/types.h>

        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static atomic_int entered, go, locked;

        int has_entered(void) { return entered; }

        /* Called without the GIL. */
        void allocate_locked(void *(*allocate)(ssize_t, int, void *), void (*release)(void *, ssize_t, int, void *))
        {
          entered = 1;
          while (!go)
            sched_yield();
          pthread_mutex_lock(&lock);
          locked = 1;
          release(allocate(1, 0, 0), 1, 0, 0);
          pthread_mutex_unlock(&lock);
        }

        /* Called with the GIL, and keeps it. */
        void ask_for_statistics(void)
        {
          go = 1;
          while (!locked)
            sched_yield();
          pthread_mutex_lock(&lock);
          pthread_mutex_unlock(&lock);
        }
    """

    PROGRAM = """
        import ctypes, sys, threading
        steps, pair = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
        if hasattr(pair, "gil_open"):
            opened = ctypes.PyDLL(sys.argv[2]).gil_open
            opened.argtypes = [ctypes.py_object] * 2 + [ctypes.c_uint64] * 3
            opened(lambda va, size: 1, lambda *_: None, 1 << 40, 1 << 30, 4096)
        else:
            import arenagen
            arenagen.set_active(arenagen.Arena("stub"), 0)
        thread = threading.Thread(target=steps.allocate_locked, args=(pair.mx_malloc, pair.mx_free))
        thread.start()
        while not steps.has_entered():
            pass
        print("asks", flush=True)
        ctypes.PyDLL(sys.argv[1]).ask_for_statistics()
        thread.join()
        print("finished")
    """

    @pytest.fixture(scope="class")
    def steps(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        return compiled(tmp_path_factory.mktemp("steps") / "libsteps.so", self.STEPS)

    def test_ours_finishes(self, steps: str) -> None:
        assert said(self.PROGRAM, steps, arenagen.library_path()) == "asks\nfinished\n"

    @pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has no GIL to wait for")
    def test_one_that_takes_the_gil_hangs(self, steps: str) -> None:
        other = OUT / "bench" / "libgil.so"
        assert other.is_file(), "make bench/libgil builds it"
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            run(self.PROGRAM, steps, str(other), timeout=4)
        # It came so far, and no farther.
        assert caught.value.stdout == b"asks\n"


class TestLoading:
    def refused(self, path: object, before: str = "", **options: Any) -> str:
        """Gives the text of a LibraryError, and checks that trying again gives it again."""
        program = before + textwrap.dedent("""
            import arenagen
            for _ in range(2):
                try:
                    arenagen.Arena("stub")
                except arenagen.LibraryError as error:
                    print(error)
        """)
        first, second = said(program, env={"ARENAGEN_LIBRARY": str(path)}, **options).splitlines()
        assert first == second
        return first

    def test_no_file(self) -> None:
        assert self.refused("/no/such.so") == (
            "ARENAGEN_LIBRARY names /no/such.so, which is no file: [Errno 2] No such file or directory: '/no/such.so'"
        )

    @pytest.mark.parametrize("length", [0, 3, 64, 1000, 100_000, 2_000_000])
    def test_a_truncated_copy(self, tmp_path: Path, length: int) -> None:
        copy = tmp_path / "libarenagen.so"
        copy.write_bytes(Path(arenagen.library_path()).read_bytes()[:length])
        assert f"cannot load {copy}: " in self.refused(copy)

    def test_a_folder(self, tmp_path: Path) -> None:
        assert "which is no file" in self.refused(tmp_path)

    def test_no_library(self) -> None:
        assert "README.md: " in self.refused(ROOT / "README.md")

    def test_another_library(self, tmp_path: Path) -> None:
        other = compiled(tmp_path / "libother.so", "int nothing(void) { return 0; }")
        assert "is no library of arenagen" in self.refused(other)

    @pytest.mark.parametrize(("version", "kept"), [("1 << 16 | 1", "1.1"), ("2 << 16 | 9", "2.9"), ("0", "0.0")])
    def test_another_interface(self, tmp_path: Path, version: str, kept: str) -> None:
        other = compiled(tmp_path / "libother.so", f"unsigned arenagen_abi_version(void) {{ return {version}; }}")
        assert f"has version {kept} of the C interface, expected 1." in self.refused(other)

    def test_one_that_lacks_functions(self, tmp_path: Path) -> None:
        version = f"{_abi.ABI_MAJOR} << 16 | {_abi.ABI_MINOR}"
        other = compiled(tmp_path / "libother.so", f"unsigned arenagen_abi_version(void) {{ return {version}; }}")
        assert "lacks a function of its version of the C interface" in self.refused(other)

    def test_no_room_for_static_tls(self, tmp_path: Path) -> None:
        other = compiled(tmp_path / "libother.so", """
            static __thread char large[2000] __attribute__((tls_model("initial-exec")));
            char *at(int i) { return large + i; }
        """)
        told = self.refused(other)
        assert "cannot allocate memory in static TLS block. Import arenagen earlier, or set GLIBC_TUNABLES=" in told
        # It is told truly: with it, what comes to light is that the library is another.
        name, _, value = told.rpartition(" ")[2].partition("=")
        program = "import os, arenagen\ntry:\n    arenagen.Arena()\nexcept ImportError as error:\n    print(error)\n"
        assert "is no library of arenagen" in said(program, env={"ARENAGEN_LIBRARY": other, name: value})

    def test_nowhere(self, tmp_path: Path) -> None:
        package = tmp_path / "arenagen"
        package.mkdir()
        for file in (ROOT / "python" / "arenagen").glob("*.py"):
            (package / file.name).write_text(file.read_text())
        program = """
            import arenagen
            try:
                arenagen.Arena("stub")
            except arenagen.LibraryError as error:
                print(error)
        """
        told = said(program, env={"PYTHONPATH": str(tmp_path)})
        assert "there is no libarenagen.so: looked for" in told and "run make" in told

    def test_a_second_library_of_ours(self) -> None:
        first = OUT / "lib" / "libarenagen_stub.so"
        before = f"import ctypes\nctypes.CDLL({str(first)!r})\n"
        told = self.refused(OUT / "lib" / "libarenagen.so", before)
        assert "libarenagen_stub.so" in told and "one" in told

    def test_the_one_that_is_there_already(self) -> None:
        program = """
            import ctypes, arenagen
            ctypes.CDLL(arenagen.library_path())
            print(arenagen.Arena("stub").malloc(1) > 0)
        """
        assert said(program) == "True\n"

    def test_environ_before_loading(self) -> None:
        program = """
            import os, sys
            import arenagen
            os.environ["ARENAGEN_CUDA_LIBRARY"] = sys.argv[1]
            print(arenagen.Arena("cuda").info.library == sys.argv[1])
        """
        assert said(program, SIMULATORS["cuda"]["ARENAGEN_CUDA_LIBRARY"]) == "True\n"

    def test_environ_names_the_library(self) -> None:
        program = """
            import os, sys
            import arenagen
            os.environ["ARENAGEN_LIBRARY"] = sys.argv[1]
            arena = arenagen.Arena("stub")
            # Once it is loaded nothing else is named.
            os.environ["ARENAGEN_LIBRARY"] = "/no/such.so"
            print(arenagen.library_path() == sys.argv[1], sys.argv[1] in open("/proc/self/maps").read())
        """
        assert said(program, str(OUT / "lib" / "libarenagen_stub.so")) == "True True\n"

    def test_in_the_middle_of_loading(self) -> None:
        # As a signal handler does that comes then.
        program = """
            import os, arenagen
            real = os.confstr
            def confstr(name):
                os.confstr = real
                print(arenagen.Arena("stub").malloc(1) > 0)
                return real(name)
            os.confstr = confstr
            print(arenagen.Arena("stub").malloc(1) > 0)
        """
        assert said(program) == "True\nTrue\n"

    def test_musl(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_library, "_loaded", None)
        for answer in (lambda name: None, lambda name: (_ for _ in ()).throw(ValueError(name))):
            monkeypatch.setattr(os, "confstr", answer)
            with pytest.raises(arenagen.LibraryError, match=r"musl \(Alpine\).*glibc"):
                _library.library()

    @pytest.mark.parametrize("module", ["arenagen", "arenagen._alloc_ext"])
    def test_a_sub_interpreter(self, module: str) -> None:
        makers = {
            "_interpreters": "x.run_string(x.create('legacy'), sys.argv[1])",
            "_xxsubinterpreters": "x.run_string(x.create(**({'isolated': False} if sys.version_info >= (3, 12) else {})), sys.argv[1])",
            "_testcapi": "x.run_in_subinterp(sys.argv[1])",
        }
        maker = next((name for name in makers if importlib.util.find_spec(name)), None)
        if maker is None:
            pytest.skip(f"this Python has none of {', '.join(makers)}, which make sub-interpreters")
        inside = textwrap.dedent(f"""
            import arenagen
            try:
                import {module}
                arenagen.Arena("stub")
            except arenagen.LibraryError as error:
                print(error, flush=True)
        """)
        told = said(f"import sys, {maker} as x\n{makers[maker]}\n", inside)
        assert told == "arenagen works in the main interpreter only, and this is a sub-interpreter\n"


class TestStatuses:
    """A library whose calls answer whatever they are told."""

    @pytest.fixture(scope="class")
    def answering(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        special = {"arenagen_abi_version", "arenagen_version", "arenagen_status_name", "arenagen_status_text",
                   "arenagen_last_error", "arenagen_diagnose"}  # fmt: skip
        rest = "\n".join(f"int {name}(void) {{ return status; }}" for name in _abi.FUNCTIONS if name not in special)
        return compiled(tmp_path_factory.mktemp("answering") / "libanswering.so", f"""
            #include <stdlib.h>
            #include <string.h>
            static int status;
            struct error {{ unsigned size; int status; long long code; unsigned long long at, bytes; char name[64], doing[64], text[512]; }};
            void answer(int number) {{ status = number; }}
            unsigned arenagen_abi_version(void) {{ return {_abi.ABI_MAJOR} << 16 | {_abi.ABI_MINOR}; }}
            const char *arenagen_version(void) {{ return "0"; }}
            const char *arenagen_status_name(int number) {{ return number ? "reason" : "ok"; }}
            const char *arenagen_status_text(int number) {{ return "a reason"; }}
            int arenagen_diagnose(void *all) {{ status = getenv("STATUS") ? atoi(getenv("STATUS")) : 0; return 0; }}
            int arenagen_last_error(struct error *e)
            {{
              e->status = status, e->code = -5, e->at = 1ull << 63, e->bytes = 7;
              strcpy(e->name, "N\\xff"), strcpy(e->doing, "doing"), strcpy(e->text, "the text");
              return 0;
            }}
            {rest}
        """)

    KINDS = {
        "INVALID_ARGUMENT": (arenagen.InvalidArgumentError, ValueError),
        "INVALID_HANDLE": (arenagen.ClosedError, RuntimeError),
        "CLOSED": (arenagen.ClosedError, RuntimeError),
        "EXHAUSTED": (arenagen.ExhaustedError, RuntimeError),
        "OVERFLOW": (arenagen.SizeOverflowError, OverflowError),
        "OUT_OF_MEMORY": (arenagen.OutOfMemoryError, MemoryError),
        "NO_ACTIVE_ARENA": (arenagen.NoActiveArenaError, RuntimeError),
        "BUSY": (arenagen.BusyError, RuntimeError),
        "NOT_SUPPORTED": (arenagen.NotSupportedError, RuntimeError),
        "NOT_PERMITTED": (arenagen.UnavailableError, RuntimeError),
        "UNAVAILABLE": (arenagen.UnavailableError, RuntimeError),
        "NO_DEVICE": (arenagen.UnavailableError, RuntimeError),
        "DRIVER_TOO_OLD": (arenagen.UnavailableError, RuntimeError),
        "DEVICE_LOST": (arenagen.DeviceLostError, RuntimeError),
        "FORKED": (arenagen.ForkedError, RuntimeError),
        "NOT_EMPTY": (arenagen.NotEmptyError, RuntimeError),
        "NOT_MAPPED": (arenagen.NotMappedError, RuntimeError),
    }

    def test_each_is_an_exception(self, answering: str) -> None:
        program = """
            import ctypes, sys, arenagen
            library = ctypes.CDLL(sys.argv[1])
            arenagen._library.library()
            for status in map(int, sys.argv[2:]):
                library.answer(status)
                try:
                    arenagen.Arena()
                except arenagen.ArenaError as error:
                    library.answer(0)
                    about = (error.status, error.operation, error.driver_code, error.driver_name, error.address, error.size, str(error))
                    assert about == ("reason", "doing", -5, "N\\ufffd", 1 << 63, 7, "the text"), about
                    print(status, type(error).__name__, *(kind.__name__ for kind in type(error).__mro__))
        """
        # One that this package does not know yet is a failure too.
        told = said(program, answering, *(str(int(status)) for status in _abi.Status), "999", env={"ARENAGEN_LIBRARY": answering})
        seen = {int(line.split()[0]): line.split()[1:] for line in told.splitlines()}
        assert set(seen) == {*_abi.Status, 999} - {0}
        for status, (kind, *kinds) in seen.items():
            expected, builtin = self.KINDS.get(_abi.Status(status).name if status != 999 else "", (arenagen.ArenaError, RuntimeError))
            assert kind == expected.__name__
            assert {"ArenaError", "RuntimeError", builtin.__name__} <= set(kinds)

    def test_a_doctor_that_fails(self, answering: str) -> None:
        environment = {**os.environ, "ARENAGEN_LIBRARY": answering, "STATUS": str(int(_abi.Status.INTERNAL))}
        ended = subprocess.run([sys.executable, "-m", "arenagen", "doctor"], env=environment, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "arenagen: the text\n")


class TestOtherRuntimes:
    LOGGED = """
        import ctypes, logging, signal, sys
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        exec(sys.argv[1])
        import arenagen
        arenagen.Arena("stub").malloc(1)
    """

    def test_none_says_nothing(self) -> None:
        assert said(self.LOGGED, "pass") == ""

    def test_a_handler_of_python_says_nothing(self) -> None:
        assert said(self.LOGGED, "signal.signal(signal.SIGURG, lambda *_: None)") == ""

    def test_a_handler_of_a_library_without_go_says_nothing(self, tmp_path: Path) -> None:
        other = compiled(tmp_path / "libother.so", """
            #include <signal.h>
            static void nothing(int number) { (void)number; }
            void handle(void) { signal(SIGURG, nothing); }
        """)
        assert said(self.LOGGED, f"ctypes.CDLL({other!r}).handle()") == ""

    def test_another_go_runtime(self, tmp_path: Path) -> None:
        source = tmp_path / "other.go"
        source.write_text('package main\n\nimport "C"\n\n//export Answer\nfunc Answer() C.int { return 42 }\n\nfunc main() {}\n')
        other = tmp_path / "libother.so"
        subprocess.run(
            [os.environ.get("GO", "go"), "build", "-buildmode=c-shared", "-o", other, source],
            env={**os.environ, "CGO_ENABLED": "1"}, check=True,
        )
        ended = run(self.LOGGED, f"print(ctypes.CDLL({str(other)!r}).Answer(), flush=True)")
        assert (ended.stdout, ended.returncode) == ("42\n", 0)
        assert ended.stderr.startswith(f"WARNING arenagen: {other} carries another Go runtime. From now on its garbage collector")


def test_this_python_is_told() -> None:
    """Which Python the tests ran with stands in their log."""
    print(sys.version, sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert sys.version_info >= (3, 9)
