"""The library inside a Python process: fork, threads, signals, exit, other libraries, and the environment."""

from __future__ import annotations

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
from arenagen import _library

OPEN = """
import ctypes, os, signal, sys, threading, time
import arenagen
arena = arenagen.Arena("stub", total=1 << 34)
arenagen.set_active(arena, 0)
lib = ctypes.CDLL(arenagen.library_path())
lib.mx_malloc.restype = ctypes.c_void_p
lib.mx_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
lib.mx_free.restype = None
lib.mx_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
"""


def opened(program: str) -> str:
    return OPEN + textwrap.dedent(program)


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


class TestSignals:
    def test_an_interrupt_arrives(self) -> None:
        program = opened("""
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
        ctypes.PyDLL(sys.argv[1]).ask_for_statistics()
        thread.join()
        print("finished")
    """

    @pytest.fixture(scope="class")
    def steps(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        return compiled(tmp_path_factory.mktemp("steps") / "libsteps.so", self.STEPS)

    def test_ours_finishes(self, steps: str) -> None:
        assert said(self.PROGRAM, steps, arenagen.library_path()) == "finished\n"

    @pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has no GIL to wait for")
    def test_one_that_takes_the_gil_hangs(self, steps: str) -> None:
        other = OUT / "bench" / "libgil.so"
        assert other.is_file(), "make bench/libgil builds it"
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            run(self.PROGRAM, steps, str(other), timeout=5)
        assert b"finished" not in (caught.value.stdout or b"")


def compiled(target: Path, source: str) -> str:
    """Makes a library of some C."""
    file = target.with_suffix(".c")
    file.write_text(textwrap.dedent(source))
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-pthread", "-o", target, file], check=True)
    return str(target)


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
        assert self.refused("/no/such.so") == "ARENAGEN_LIBRARY names /no/such.so, which is no file"

    def test_no_library(self) -> None:
        assert "README.md: " in self.refused(ROOT / "README.md")

    def test_another_library(self, tmp_path: Path) -> None:
        other = compiled(tmp_path / "libother.so", "int nothing(void) { return 0; }")
        assert "is no library of arenagen" in self.refused(other)

    @pytest.mark.parametrize(("version", "kept"), [("1 << 16 | 1", "1.1"), ("2 << 16 | 9", "2.9"), ("0", "0.0")])
    def test_another_interface(self, tmp_path: Path, version: str, kept: str) -> None:
        other = compiled(tmp_path / "libother.so", f"unsigned arenagen_abi_version(void) {{ return {version}; }}")
        assert f"has version {kept} of the C interface, expected 1." in self.refused(other)

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

    def test_musl(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_library, "_loaded", None)
        for answer in (lambda name: None, lambda name: (_ for _ in ()).throw(ValueError(name))):
            monkeypatch.setattr(os, "confstr", answer)
            with pytest.raises(arenagen.LibraryError, match=r"musl \(Alpine\).*glibc"):
                _library.library()

    @pytest.mark.parametrize("module", ["arenagen", "arenagen._alloc_ext"])
    def test_a_sub_interpreter(self, module: str) -> None:
        pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes sub-interpreters")
        inside = f"""
try:
    import {module}
    import arenagen
    arenagen.Arena("stub")
except ImportError as error:
    print(error)
"""
        program = f"import _testcapi, sys\n_testcapi.run_in_subinterp({inside!r})\nsys.stdout.flush()\n"
        assert "works in the main interpreter only" in run(program).stdout


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
