"""An inference worker's load, and another worker that reads the weights: one arena each, on host memory.

The first process puts the tensors of a small transformer into an arena, as a loader of safetensors would, and registers the one
range with NIXL. The second allocates an arena of its own, reads every tensor over loopback, and compares what arrived byte
for byte. Registering each tensor by itself is timed beside it.

    python examples/nixl/load.py
"""

from __future__ import annotations

import json
import os
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
DEADLINE = 120  # seconds for each step


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


def register(nixl: Any, blocks: list[tuple[int, int]]) -> tuple[Any, float]:
    """Registers blocks, and gives the seconds that it took."""
    began = time.perf_counter()
    registered = nixl.register_memory([(address, size, 0, "") for address, size in blocks], "DRAM")
    return registered, time.perf_counter() - began


def serve() -> None:
    """The first worker: loads, registers, and says where what is, until its input ends."""
    arena, nixl = open_arena(), agent("loader")
    places: dict[str, tuple[int, int]] = {}
    for name, weights in random_weights():
        address = arena.malloc(len(weights))
        numpy.asarray(arena.buffer(address, len(weights)))[:] = weights
        places[name] = (address, len(weights))
    each, each_seconds = register(nixl, list(places.values()))
    nixl.deregister_memory(each)
    whole, whole_seconds = register(nixl, [arena.registered_range()])
    say(
        metadata=nixl.get_agent_metadata().hex(), tensors=places, range=arena.registered_range(),
        each_seconds=each_seconds, whole_seconds=whole_seconds,
    )  # fmt: skip
    sys.stdin.read()
    nixl.deregister_memory(whole)
    for address, _ in places.values():
        arena.free(address)
    arena.close()


def read() -> None:
    """The second worker: reads every tensor that its input names, and says what arrived."""
    told = json.loads(sys.stdin.readline())
    arena, nixl = open_arena(), agent("reader")
    mine = {name: (arena.malloc(size), size) for name, (_, size) in told["tensors"].items()}
    registered, _ = register(nixl, [arena.registered_range()])
    loader = nixl.add_remote_agent(bytes.fromhex(told["metadata"]))
    theirs = [(address, size) for address, size in told["tensors"].values()]
    transfer = nixl.initialize_xfer("READ", descriptors(nixl, list(mine.values())), descriptors(nixl, theirs), loader)
    began = time.perf_counter()
    state = nixl.transfer(transfer)
    while state not in ("DONE", "ERR") and time.perf_counter() - began < DEADLINE:
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
    return [name for name, weights in random_weights() if not numpy.array_equal(arena.buffer(*places[name]), weights)]


def say(**fields: object) -> None:
    """Writes one line for the process that started this one. NIXL may print other lines."""
    print("told " + json.dumps(fields), flush=True)


def listen(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("told "):
            return json.loads(line[5:])
    sys.exit(f"a worker ended with {process.wait()} and said nothing")


def worker(role: str) -> subprocess.Popen[str]:
    command = ["timeout", str(DEADLINE), sys.executable, __file__, role]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main() -> None:
    loader, reader = worker("serve"), worker("read")
    try:
        told = listen(loader)
        print(json.dumps(told), file=reader.stdin, flush=True)
        result = listen(reader)
    finally:
        for process in (loader, reader):
            assert process.stdin is not None
            process.stdin.close()
    codes = loader.wait(), reader.wait()
    if codes != (0, 0):
        sys.exit(f"the workers ended with {codes}")

    tensors, total = told["tensors"], sum(size for _, size in told["tensors"].values())
    if result["wrong"] or result["found"] != [result["flipped"]]:
        sys.exit(f"these tensors differ: {result['wrong']}; with a bit of {result['flipped']} flipped: {result['found']}")
    each, whole = told["each_seconds"], told["whole_seconds"]
    print(f"loaded      {len(tensors)} tensors, {total / 1e6:.0f} MB, in one range of {told['range'][1] / 1e6:.0f} MB")
    print(f"registered  1 region in {whole * 1e3:.2f} ms; {len(tensors)} regions in {each * 1e3:.2f} ms, {each / whole:.1f} times as long")
    print(f"read        {total / 1e6:.0f} MB over loopback in {result['seconds']:.2f} s, every tensor the same byte for byte; a flipped bit is found")


if __name__ == "__main__":
    {"serve": serve, "read": read}.get(sys.argv[1], main)() if len(sys.argv) > 1 else main()
