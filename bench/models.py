"""The sizes in bytes of the tensors of two models, in the order in which their checkpoints list them.

    python3 bench/models.py dense > sizes

The shapes are those that the models' published configurations give, in 16 bits: Llama-3.1-8B (dense) and
Qwen3-30B-A3B (a mixture of experts).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

BYTES = 2  # of a number


class Model(NamedTuple):
    """What config.json of a model says."""

    name: str
    hidden_size: int
    intermediate_size: int  # of an expert, where there are some
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    num_experts: int = 0
    norms_of_heads: bool = False  # queries and keys are normalised by head


MODELS = {
    "dense": Model("Llama-3.1-8B", 4096, 14336, 32, 32, 8, 128, 128256),
    "experts": Model("Qwen3-30B-A3B", 2048, 768, 48, 32, 4, 128, 151936, num_experts=128, norms_of_heads=True),
}


def tensors(model: Model) -> Iterator[int]:
    """Give how many numbers each tensor has."""
    hidden, queries = model.hidden_size, model.num_attention_heads * model.head_dim
    keys = model.num_key_value_heads * model.head_dim
    yield model.vocab_size * hidden  # the embedding
    for _ in range(model.num_hidden_layers):
        yield hidden  # the norm before attention
        for projection in (queries, keys, keys, queries):  # of queries, keys, values and the output
            yield projection * hidden
        if model.norms_of_heads:
            yield from (model.head_dim, model.head_dim)
        yield hidden  # the norm behind attention
        if model.num_experts:
            yield model.num_experts * hidden  # the router
        for _ in range(model.num_experts or 1):
            yield from [model.intermediate_size * hidden] * 3  # gate, up and down
    yield hidden  # the last norm
    yield model.vocab_size * hidden  # the head


def sizes(kind: str) -> list[int]:
    """Give the bytes of each tensor."""
    return [count * BYTES for count in tensors(MODELS[kind])]


if __name__ == "__main__":
    print(*sizes(sys.argv[1]), sep="\n")
