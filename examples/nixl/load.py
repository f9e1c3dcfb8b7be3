"""An inference worker's load, and another worker that reads the weights: one arena each, on host memory.

The first process puts the tensors of a small transformer into an arena, as a loader of safetensors would, and registers
the one range with NIXL. The second allocates an arena of its own, reads every tensor over loopback, and compares what
arrived byte for byte. Registering each tensor by itself is timed beside it.

    python examples/nixl/load.py
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# Loopback, and nothing else. Set before UCX is loaded.
os.environ.update({"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_LOG_LEVEL": "error", "NIXL_LOG_LEVEL": "WARN"})

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import numpy  # noqa: E402

import arenagen  # noqa: E402

SEED = 1
LAYERS, HIDDEN, INNER, HEADS, WORDS = 12, 1024, 2816, 256, 32000
DEADLINE = 120  # seconds, for each worker
ROUNDS = 9  # of registering, to take the median of


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]

    def size(self) -> int:
        return int(numpy.prod(self.shape)) * (2 if self.dtype == "BF16" else 4)


def checkpoint() -> list[Tensor]:
    """Gives what the header of a safetensors file would say: names, dtypes and shapes."""
    tensors = [Tensor("model.embed_tokens.weight", "BF16", (WORDS, HIDDEN))]
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors += [
            Tensor(prefix + "input_layernorm.weight", "F32", (HIDDEN,)),
            Tensor(prefix + "self_attn.q_proj.weight", "BF16", (HIDDEN, HIDDEN)),
            Tensor(prefix + "self_attn.k_proj.weight", "BF16", (HEADS, HIDDEN)),
            Tensor(prefix + "self_attn.v_proj.weight", "BF16", (HEADS, HIDDEN)),
            Tensor(prefix + "self_attn.o_proj.weight", "BF16", (HIDDEN, HIDDEN)),
            Tensor(prefix + "post_attention_layernorm.weight", "F32", (HIDDEN,)),
            Tensor(prefix + "mlp.gate_proj.weight", "BF16", (INNER, HIDDEN)),
            Tensor(prefix + "mlp.up_proj.weight", "BF16", (INNER, HIDDEN)),
            Tensor(prefix + "mlp.down_proj.weight", "BF16", (HIDDEN, INNER)),
        ]
    return [*tensors, Tensor("model.norm.weight", "F32", (HIDDEN,)), Tensor("lm_head.weight", "BF16", (WORDS, HIDDEN))]


def random_weights() -> Iterator[tuple[str, Any]]:
    """Gives each tensor's name and bytes, the same in every process."""
    random = numpy.random.default_rng(SEED)
    for tensor in checkpoint():
        yield tensor.name, numpy.frombuffer(random.bytes(tensor.size()), numpy.uint8)


def open_arena() -> arenagen.Arena:
    # A granule of 64 KiB keeps the holes between small tensors small.
    return arenagen.Arena("stub", granularity="minimum", total=1 << 34)


def agent(name: str) -> Any:
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def descriptors(nixl: Any, blocks: list[tuple[int, int]]) -> Any:
    return nixl.get_xfer_descs([(address, size, 0) for address, size in blocks], "DRAM")


def register(nixl: Any, blocks: list[tuple[int, int]]) -> Any:
    return nixl.register_memory([(address, size, 0, "") for address, size in blocks], "DRAM")


def time_registering(nixl: Any, blocks: list[tuple[int, int]]) -> float:
    """Registers blocks in one call and takes that back. Gives the seconds of the first."""
    began = time.perf_counter()
    registered = register(nixl, blocks)
    seconds = time.perf_counter() - began
    nixl.deregister_memory(registered)
    return seconds


def serve() -> None:
    """The first worker: loads, registers, and says where what is, until its input ends."""
    arena, nixl = open_arena(), agent("loader")
    places: dict[str, tuple[int, int]] = {}
    for name, weights in random_weights():
        address = arena.malloc(len(weights))
        arena.buffer(address, len(weights)).view[:] = weights.data
        places[name] = (address, len(weights))
    each, whole = list(places.values()), [arena.registered_range()]
    # The two take turns, and the first round, which warms up, does not count.
    rounds = [(time_registering(nixl, each), time_registering(nixl, whole)) for _ in range(1 + ROUNDS)][1:]
    each_seconds, whole_seconds = (statistics.median(column) for column in zip(*rounds))
    registered = register(nixl, whole)
    say(
        metadata=nixl.get_agent_metadata().hex(), tensors=places, range=whole[0], regions=registered.descCount(),
        each_seconds=each_seconds, whole_seconds=whole_seconds,
    )  # fmt: skip
    sys.stdin.read()
    nixl.deregister_memory(registered)
    for address, _ in places.values():
        arena.free(address)
    arena.close()


def read() -> None:
    """The second worker: reads every tensor that its input names, and says what arrived."""
    told = json.loads(sys.stdin.readline())
    arena, nixl = open_arena(), agent("reader")
    mine = {name: (arena.malloc(size), size) for name, (_, size) in told["tensors"].items()}
    registered = register(nixl, [arena.registered_range()])
    loader = nixl.add_remote_agent(bytes.fromhex(told["metadata"]))
    theirs = [(address, size) for address, size in told["tensors"].values()]
    transfer = nixl.initialize_xfer("READ", descriptors(nixl, list(mine.values())), descriptors(nixl, theirs), loader)
    began = time.perf_counter()
    state = nixl.transfer(transfer)
    while state not in ("DONE", "ERR"):
        state = nixl.check_xfer_state(transfer)
    seconds = time.perf_counter() - began
    if state != "DONE":
        sys.exit(f"the transfer ended as {state}")
    wrong = different(arena, mine)
    # The comparison must be able to fail: one bit is flipped.
    name, (address, size) = next(iter(mine.items()))
    arena.buffer(address, size).view[size // 2] ^= 1
    say(wrong=wrong, flipped=name, found=different(arena, mine), seconds=seconds)
    nixl.release_xfer_handle(transfer)
    nixl.deregister_memory(registered)
    nixl.remove_remote_agent(loader)
    for address, _ in mine.values():
        arena.free(address)
    arena.close()


def different(arena: arenagen.Arena, places: dict[str, tuple[int, int]]) -> list[str]:
    """Compares every byte with what it must be."""
    return [
        name for name, weights in random_weights()
        if not numpy.array_equal(arena.buffer(*places[name]).view, weights)
    ]  # fmt: skip


def say(**fields: object) -> None:
    """Writes one line for the process that started this one. NIXL may print other lines."""
    print("told " + json.dumps(fields), flush=True)


def worker(role: str) -> subprocess.Popen[str]:
    """Starts a worker that cannot stay: at the deadline it is ended, and is killed if that does not help."""
    command = ["timeout", "--kill-after=5", str(DEADLINE), sys.executable, __file__, role]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def listen(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("told "):
            return json.loads(line[5:])
    end(process)
    sys.exit(f"{process.args!r} said nothing")


def end(process: subprocess.Popen[str]) -> None:
    """Ends a worker by the end of its input, and waits for it."""
    assert process.stdin is not None
    process.stdin.close()
    code = process.wait()
    if code != 0:
        sys.exit(f"{process.args!r} ended with {code}" + ", at the deadline" * (code == 124))


def main() -> None:
    loader, reader = worker("serve"), worker("read")
    workers = reader, loader  # as they end: nobody reads from a worker that is gone
    try:
        told = listen(loader)
        print(json.dumps(told), file=reader.stdin, flush=True)
        result = listen(reader)
        for process in workers:
            end(process)
    finally:
        # None is left behind, whatever failed.
        for process in workers:
            process.terminate()
            process.wait()

    tensors, total = told["tensors"], sum(size for _, size in told["tensors"].values()) / 1e6
    if result["wrong"] or result["found"] != [result["flipped"]]:
        sys.exit(f"these differ: {result['wrong']}; with a bit of {result['flipped']} flipped: {result['found']}")
    each, whole = told["each_seconds"] * 1e3, told["whole_seconds"] * 1e3
    print(f"loaded      {len(tensors)} tensors, {total:.0f} MB, in one range of {told['range'][1] / 1e6:.0f} MB")
    print(f"registered  {told['regions']} region in {whole:.3f} ms")
    print(f"            one for each tensor would take {each:.3f} ms, {each / whole:.1f} times as long")
    print(f"read        {total:.0f} MB over loopback in {result['seconds']:.2f} s")
    print("compared    every byte of every tensor is the same; a flipped bit is found")


if __name__ == "__main__":
    {"": main, "serve": serve, "read": read}["".join(sys.argv[1:])]()
