"""What an arena holds and shares beside its allocations."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from child import BACKENDS, SIMULATORS, run, said, simulated_with, those_with

import arenagen

GRANULE = 2 << 20


@pytest.fixture
def make() -> Any:
    made: list[arenagen.Arena] = []

    def new(**options: Any) -> arenagen.Arena:
        options.setdefault("total", 1 << 34)
        made.append(arenagen.Arena("stub", **options))
        return made[-1]

    yield new
    for arena in made:
        arena.release(force=True)


def until(true: Any) -> None:
    """Wait for what the library does in the background."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0)


class TestCache:
    def test_a_handle_is_used_again(self, make: Any) -> None:
        arena = make(cache=4 * GRANULE)
        arena.free(arena.malloc(GRANULE))
        stats = arena.stats()
        assert (stats.cache_bytes, stats.cache_handles, stats.cache_kept) == (GRANULE, 1, 1)
        arena.malloc(GRANULE)
        assert arena.stats().cache_reused == 1
        for size in (1, 2, 3, 1):
            arena.free(arena.malloc(size * GRANULE))
            assert arena.stats().cache_bytes <= 4 * GRANULE
        assert arena.trim(GRANULE) > 0
        assert arena.stats().cache_bytes <= GRANULE
        arena.trim()
        stats = arena.stats()
        assert stats.cache_handles == stats.cache_kept - stats.cache_reused - stats.cache_trimmed == 0
        assert arena.trim() == 0

    def test_slabs_are_mapped_ahead(self, make: Any) -> None:
        arena = make(placement="slab", slab_size=8 * GRANULE, prefetch=16 * GRANULE)
        for _ in range(40):
            arena.malloc(GRANULE)
            until(lambda: arena.stats().slab_ahead == 16 * GRANULE)
        stats = arena.stats()
        assert (stats.slabs, stats.slabs_made, stats.slabs_gone) == (7, 7, 0)
        arena.close()
        assert arena.stats().handles == 0

    def test_addresses_are_used_again(self, make: Any) -> None:
        arena = make(reuse=True, total=2 * GRANULE)
        first = arena.malloc(GRANULE)
        for _ in range(10):
            arena.free(first)
            assert arena.malloc(GRANULE) == first

    def test_refusals(self) -> None:
        for options, text in (
            ({"prefetch": 1}, "only slabs can be mapped ahead"),
            ({"events": 1 << 25}, "events must be 0 to"),
            ({"peers": [64]}, "from 0 to 63, got 64"),
            ({"peers": [-1]}, "from 0 to 63, got -1"),
        ):
            with pytest.raises(arenagen.InvalidArgumentError, match=text):
                arenagen.Arena("stub", **options)
        for options in ({"cache": -1}, {"cache": 1 << 64}, {"events": -1}, {"prefetch": -1}):
            with pytest.raises((OverflowError, arenagen.InvalidArgumentError)):
                arenagen.Arena("stub", **options)


class TestOutOfMemory:
    def test_who_is_asked_frees_something(self, make: Any) -> None:
        arena = make(options={"capacity": "8MiB"}, cache=8 << 20)
        held = [arena.malloc(6 << 20)]
        asked: list[arenagen.Shortage] = []

        def on_shortage(shortage: arenagen.Shortage) -> bool:
            asked.append(shortage)
            if held:
                arena.free(held.pop())
                return True
            return False

        arena.on_out_of_memory(on_shortage)
        address = arena.malloc(4 << 20)
        assert asked == [arenagen.Shortage(4 << 20, 6 << 20, 0, 8 << 20, 1)]
        with pytest.raises(arenagen.OutOfMemoryError, match="no memory for 8388608 bytes after 1 attempts: .* 4194304 bytes mapped and 0 cached"):
            arena.malloc(8 << 20)
        assert len(asked) == 2
        arena.on_out_of_memory(None)
        with pytest.raises(arenagen.OutOfMemoryError):
            arena.malloc(8 << 20)
        assert len(asked) == 2
        arena.free(address)
        arena.malloc(8 << 20)

    def test_what_it_raises_means_no(self, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        arena = make(options={"capacity": "4MiB"})
        told: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(unraisable.exc_value))

        def fail(_: object) -> bool:
            raise ValueError("no")

        arena.on_out_of_memory(fail)
        with pytest.raises(arenagen.OutOfMemoryError):
            arena.malloc(8 << 20)
        assert [str(error) for error in told] == ["no"]
        with pytest.raises(TypeError):
            arena.on_out_of_memory(1)

    def test_it_stays_with_the_memory(self) -> None:
        # The object is gone; mx_malloc serves from the arena, and asks.
        program = """
            import ctypes, gc, arenagen
            pair = ctypes.CDLL(arenagen.library_path())
            pair.mx_malloc.restype, pair.mx_malloc.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            arena = arenagen.Arena("stub", options={"capacity": "4MiB"})
            asked = []
            for number in range(100):
                arena.on_out_of_memory(lambda shortage, number=number: asked.append(number))
            arenagen.set_active(arena)
            del arena
            gc.collect()
            assert pair.mx_malloc(8 << 20, 0, None) is None
            print(asked)
        """
        assert said(program) == "[99]\n"

    def test_nobody_is_asked_at_exit(self) -> None:
        program = """
            import atexit, ctypes, arenagen
            pair = ctypes.CDLL(arenagen.library_path())
            pair.mx_malloc.restype, pair.mx_malloc.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
            arena = arenagen.Arena("stub", options={"capacity": "4MiB"})
            asked = []
            arena.on_out_of_memory(asked.append)
            arenagen.set_active(arena)
            class Late:
                def __del__(self):
                    assert pair.mx_malloc(8 << 20, 0, None) is None
                    print(asked)
            late = Late()
        """
        assert said(program) == "[]\n"


class TestRegions:
    def test_kinds(self, make: Any) -> None:
        arena = make()
        first, second, third = (arena.malloc(GRANULE) for _ in range(3))
        (run_,) = arena.regions()
        assert (run_.base, run_.length, run_.offset, run_.handle) == (first, 3 * GRANULE, 0, 0)
        for kind in ("posix_fd", "fabric", "cuda_ipc"):
            assert [region.base for region in arena.regions(kind)] == [first, second, third]
            assert len({region.handle for region in arena.regions(kind)}) == 3
        arena.free(second)
        assert [region.base for region in arena.regions("dmabuf")] == [first, third]
        assert [(region.base, region.length) for region in arena.regions("holes")] == [(second, GRANULE)]
        assert [(region.base, region.length) for region in arena.regions("whole")] == [(first, 3 * GRANULE)]
        with pytest.raises(arenagen.InvalidArgumentError, match="kind must be dmabuf"):
            arena.regions("nothing")

    def test_more_than_a_few(self, make: Any) -> None:
        arena = make()
        for _ in range(1000):
            arena.malloc(GRANULE)
        assert len(arena.regions("posix_fd")) == 1000

    def test_generations(self, make: Any) -> None:
        arena = make(reuse=True)
        address = arena.malloc(GRANULE)
        (before,) = arena.regions("posix_fd")
        arena.free(address)
        assert arena.malloc(GRANULE) == address
        (after,) = arena.regions("posix_fd")
        assert after.base == before.base and after.generation != before.generation
        arena.free(address)
        arena.reset()
        assert arena.malloc(GRANULE) == address
        assert arena.regions("posix_fd")[0].generation not in (before.generation, after.generation)

    def test_a_cache_of_registrations(self, make: Any) -> None:
        """Follows an arena while threads allocate, and has in the end what the arena has."""
        arena = make(placement="slab", slab_size=4 * GRANULE, cache=16 * GRANULE, prefetch=8 * GRANULE)
        at = arena.changes().next
        registered = {region.base: region.length for region in arena.regions("posix_fd")}
        stop = threading.Event()

        def churn() -> None:
            while not stop.is_set():
                held = [arena.malloc(size * 700000) for size in (1, 3, 9, 20)]
                for address in held:
                    arena.free(address)

        def follow(at: int) -> int:
            seen = arena.changes(at)
            if seen.missed:
                registered.clear()
                registered.update({region.base: region.length for region in arena.regions("posix_fd")})
                return seen.next
            for event in seen.events:
                if event.kind == "unmapping":
                    registered.pop(event.address, None)
                elif event.kind != "unmapped":
                    registered[event.address] = event.size
            return seen.next

        threads = [threading.Thread(target=churn) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(300):
            at = follow(at)
        stop.set()
        for thread in threads:
            thread.join()
        until(lambda: arena.stats().slab_ahead in (0, 8 * GRANULE))
        while (after := follow(at)) != at:
            at = after
        assert registered == {region.base: region.length for region in arena.regions("posix_fd")}


class TestEvents:
    def test_in_their_order(self, make: Any) -> None:
        arena = make(events=100)
        address = arena.malloc(GRANULE)
        arena.free(address)
        seen = arena.events()
        assert [event.kind for event in seen.events] == ["mapped", "malloc", "free", "unmapping", "unmapped"]
        assert [event.sequence for event in seen.events] == [1, 2, 3, 4, 5]
        assert {event.address for event in seen.events} == {address}
        assert (seen.missed, seen.next) == (0, 5)
        assert arena.events(5).events == []
        for _ in range(100):
            arena.free(arena.malloc(GRANULE))
        seen = arena.events(5, limit=10)
        assert seen.missed == 505 - 128 - 5 and len(seen.events) == 10 and seen.next == seen.events[-1].sequence
        assert make().events().events == []

    def test_a_trace_for_arenactl(self, make: Any, tmp_path: Path) -> None:
        arena = make(events=1000, placement="slab", slab_size=4 * GRANULE, cache=4 * GRANULE)
        for address in [arena.malloc(GRANULE // 3) for _ in range(20)]:
            arena.free(address)
        arena.save_trace(tmp_path / "trace.json")
        trace = json.loads((tmp_path / "trace.json").read_text())
        assert (trace["format"], trace["version"], trace["missed"]) == ("arenagen-trace", 1, 0)
        assert [event["seq"] for event in trace["events"]] == list(range(1, len(trace["events"]) + 1))
        tool = Path(__file__).resolve().parents[2] / "out" / "bin" / "arenactl"
        drawn = [str(tool), "trace", str(tmp_path / "trace.json"), "--svg", str(tmp_path / "map.svg"), "--chrome", str(tmp_path / "chrome.json")]
        assert subprocess.run(drawn, check=False, capture_output=True, text=True, timeout=60).returncode == 0
        assert "<svg" in (tmp_path / "map.svg").read_text()
        assert json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]

    def test_snapshot(self, make: Any) -> None:
        arena = make(cache=GRANULE)
        arena.set_tag(2)
        arena.malloc(1)
        snapshot = arena.snapshot()
        assert snapshot["live"] == 1 and snapshot["created"] == 1 and snapshot["placement"] == "per allocation"
        assert snapshot["tags"] == {"2": {"live": 1, "mapped": GRANULE, "peak_mapped": GRANULE}}
        assert snapshot["cache"]["budget"] == GRANULE


class TestTags:
    def test_tags_and_peaks(self, make: Any) -> None:
        arena = make()
        arena.set_tag(5)
        address = arena.malloc(3 * GRANULE)
        assert arena.tag_stats(5) == arenagen.TagStats(5, 1, 3 * GRANULE, 3 * GRANULE)
        arena.free(address)
        assert arena.tag_stats(5) == arenagen.TagStats(5, 0, 0, 3 * GRANULE)
        assert arena.stats().peak_mapped == 3 * GRANULE
        arena.reset_peaks()
        assert arena.tag_stats(5) == arenagen.TagStats(5, 0, 0, 0)
        assert arena.stats().peak_mapped == 0
        for tag in (16, 255, 256, 1 << 31):
            with pytest.raises(arenagen.InvalidArgumentError):
                arena.set_tag(tag)
        with pytest.raises(arenagen.InvalidArgumentError):
            arena.tag_stats(0)

    def test_devices(self, make: Any) -> None:
        before = arenagen.device_stats(1)
        arena = make(device=1, options={"devices": 2}, cache=GRANULE)
        arena.free(arena.malloc(GRANULE))
        arena.malloc(GRANULE // 2)
        after = arenagen.device_stats(1)
        assert after.arenas == before.arenas + 1 and after.live == before.live + 1
        assert json.loads(after.to_json())["device"] == 1


@pytest.mark.parametrize("backend", those_with("import_fd"))
class TestSharing:
    """Two processes, one of which gives its memory to the other over a socket."""

    PEER = """
        import ctypes, socket, sys, arenagen
        link = socket.socket(fileno=int(sys.argv[2]))
        arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34)
        text, fds, _, _ = socket.recv_fds(link, 100, 1)
        size = int(text)
        address = arena.import_fd(fds[0], size)
        import os
        os.close(fds[0])
        assert ctypes.string_at(address, 5) == b"hello", ctypes.string_at(address, 5)
        ctypes.memmove(address + size - 5, b"world", 5)
        if sys.argv[3] == "peer first":
            arena.free(address)
            arena.release()
        link.send(b"done")
        link.recv(10)
        if sys.argv[3] != "peer first":
            assert ctypes.string_at(address, 5) == b"HELLO"
            ctypes.memmove(address, b"alone", 5)
            assert ctypes.string_at(address, 5) == b"alone"
            stats = arena.stats()
            assert (stats.live, stats.mapped) == (1, size)
            arena.free(address)
            arena.release()
        print("good")
    """
    OWNER = """
        import ctypes, os, socket, subprocess, sys, textwrap, arenagen
        here, there = socket.socketpair()
        options = dict(placement="slab", slab_size=8 << 20) if sys.argv[3] == "slab" else {}
        arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34, exportable=True, cache=1 << 30, **options)
        address = arena.malloc(4 << 20)
        (region,) = arena.regions("posix_fd")
        assert "posix_fd" in region.exports, region
        ctypes.memmove(region.base, b"hello", 5)
        peer = subprocess.Popen([sys.executable, "-c", sys.argv[4], sys.argv[1], str(there.fileno()), sys.argv[2]], pass_fds=[there.fileno()])
        there.close()
        fd = arena.export_fd(region.base)
        socket.send_fds(here, [str(region.length).encode()], [fd])
        os.close(fd)
        assert here.recv(10) == b"done"
        assert ctypes.string_at(region.base + region.length - 5, 5) == b"world"
        ctypes.memmove(region.base, b"HELLO", 5)
        assert address == region.base
        arena.free(address)
        # Somebody else may have it, so it is not used again.
        assert arena.stats().cache_bytes == 0
        arena.release()
        here.send(b"go on")
        assert peer.wait() == 0
    """

    @pytest.mark.parametrize("order", ["peer first", "owner first"])
    @pytest.mark.parametrize("placement", ["per_allocation", "slab"])
    def test_two_processes(self, backend: str, order: str, placement: str) -> None:
        # The simulators have no fabric here, so that the handles are file descriptors.
        environment = {**BACKENDS[backend], "ARENASIM": "lacks=2"}
        assert said(self.OWNER, backend, order, placement, textwrap.dedent(self.PEER), env=environment) == "good\n"

    def test_garbage(self, backend: str) -> None:
        program = """
            import os, sys, arenagen
            arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34)
            live = arena.malloc(1)
            reading, writing = os.pipe()
            for fd in (-1, 999, reading, 1 << 30):
                try:
                    arena.import_fd(fd, 2 << 20)
                except arenagen.ArenaError as error:
                    assert error.status in ("driver", "not_supported"), error.status
                else:
                    raise AssertionError(fd)
            for size in (0, -1):
                try:
                    arena.import_fd(reading, size)
                except arenagen.InvalidArgumentError:
                    pass
                else:
                    raise AssertionError(size)
            for wrong in (0, live + 1, live + (1 << 30), (1 << 64) - 1):
                for export in (arena.export_fd, arena.export_fabric):
                    try:
                        export(wrong)
                    except arenagen.NotMappedError:
                        pass
                    else:
                        raise AssertionError(wrong)
            try:
                arena.import_fabric(b"short", 1)
            except arenagen.InvalidArgumentError:
                pass
            else:
                raise AssertionError
            stats = arena.stats()
            assert (stats.live, stats.quarantined) == (1, 0), stats
            arena.release()
            print("good")
        """
        assert said(program, backend, env=BACKENDS[backend]) == "good\n"


@pytest.mark.parametrize("backend", ["cuda"])
class TestFabric:
    def test_two_processes(self, backend: str) -> None:
        program = """
            import ctypes, subprocess, sys, arenagen
            arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34)
            address = arena.malloc(2 << 20)
            (region,) = arena.regions("fabric")
            assert "fabric" in region.exports, region
            fabric = arena.export_fabric(region.base)
            assert len(fabric) == 64
            ctypes.memmove(address, b"hello", 5)
            peer = '''
            import ctypes, sys, arenagen
            arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34)
            address = arena.import_fabric(bytes.fromhex(sys.argv[2]), 2 << 20)
            assert ctypes.string_at(address, 5) == b"hello"
            ctypes.memmove(address, b"world", 5)
            '''
            import textwrap
            subprocess.run([sys.executable, "-c", textwrap.dedent(peer), sys.argv[1], fabric.hex()], check=True)
            assert ctypes.string_at(address, 5) == b"world"
            print("good")
        """
        assert said(program, backend, env=SIMULATORS[backend]) == "good\n"


class TestSimulated:
    @pytest.mark.parametrize("backend", simulated_with("map_grants", has=False))
    def test_peers(self, backend: str) -> None:
        program = """
            import ctypes, os, sys, arenagen
            sim = ctypes.CDLL(os.environ["ARENAGEN_" + sys.argv[1].upper() + "_LIBRARY"])
            sim.arenasim_granted.restype, sim.arenasim_granted.argtypes = ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_uint64]
            arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34, peers=[1], placement=sys.argv[2], slab_size=(8 << 20) * (sys.argv[2] == "slab"))
            first = arena.malloc(2 << 20)
            granted = lambda address: [sim.arenasim_granted(address, device) for device in range(4)]
            assert granted(first) == [1, 1, 0, 0], granted(first)
            arena.add_peer(2)
            second = arena.malloc(20 << 20)
            assert granted(first) == granted(second) == [1, 1, 1, 0], (granted(first), granted(second))
            sim.arenasim_set(b"peer_refused", ctypes.c_uint64(4))
            try:
                arena.add_peer(3)
            except arenagen.NotSupportedError as error:
                assert "let device 3 reach" in str(error)
            else:
                raise AssertionError
            third = arena.malloc(20 << 20)
            assert granted(third) == [1, 1, 1, 0], granted(third)
            arena.release()
            print("good")
        """
        for placement in ("per_allocation", "slab"):
            assert said(program, backend, placement, env={**SIMULATORS[backend], "ARENASIM": "devices=4"}) == "good\n"

    @pytest.mark.parametrize("backend", [b for b in simulated_with("sync_stream") if b in simulated_with("sync_device")])
    def test_no_path_unmaps_what_is_in_use(self, backend: str) -> None:
        # A stream has work pending on the memory whenever something is about to be unmapped: the simulator counts who did not wait.
        program = """
            import ctypes, os, sys, arenagen
            sim = ctypes.CDLL(os.environ["ARENAGEN_" + sys.argv[1].upper() + "_LIBRARY"])
            for name in ("stream", "violations"):
                getattr(sim, "arenasim_" + name).restype = ctypes.c_uint64
            sim.arenasim_busy.argtypes = [ctypes.c_uint64] * 3
            def busy(arena, size=2 << 20):
                stream = sim.arenasim_stream()
                address = arena.malloc(size, stream=stream)
                assert sim.arenasim_busy(stream, address, size)
                return address
            slabs = dict(placement="slab", slab_size=8 << 20)
            for options in ({}, slabs, dict(cache=1 << 30), dict(cache=1 << 30, **slabs), dict(reuse=True), dict(placement="single", total=64 << 20)):
                options = {"total": 1 << 34, **options}
                for drain in ("usual", "stream", "device"):
                    for ending in ("free", "close", "release", "trim", "reset", "drop"):
                        arena = arenagen.Arena(backend=sys.argv[1], drain=drain, **options)
                        live = [busy(arena) for _ in range(6)]
                        if ending in ("free", "trim", "reset", "drop"):
                            for address in live:
                                arena.free(address)
                        if ending == "trim":
                            arena.trim()
                        if ending == "reset":
                            arena.reset()
                        if ending == "close":
                            arena.close()
                        if ending != "drop":
                            arena.release()
                        del arena
                        assert sim.arenasim_violations() == 0, (options, drain, ending)
            # The simulator can tell.
            arena = arenagen.Arena(backend=sys.argv[1], drain="none", total=1 << 34)
            arena.free(busy(arena))
            assert sim.arenasim_violations() == 1
            print("good")
        """
        assert said(program, backend, env=SIMULATORS[backend]) == "good\n"

    @pytest.mark.parametrize("backend", SIMULATORS)
    def test_what_a_driver_exports_is_found_by_doing(self, backend: str) -> None:
        program = """
            import os, sys, arenagen
            arena = arenagen.Arena(backend=sys.argv[1], total=1 << 34)
            arena.malloc(1)
            (region,) = arena.regions("dmabuf")
            print(*sorted(region.exports))
            if "dmabuf" in region.exports:
                os.close(arena.export_dmabuf(region.base, region.length))
        """
        assert said(program, backend, env=SIMULATORS[backend]).split() != []
