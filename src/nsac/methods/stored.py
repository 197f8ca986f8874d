"""Sizes of a stored method, compared with its tensors before anything of that size is built."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nsac.methods.base import AbstractMethod, AbstractSolved
from nsac.methods.problem import AbstractProblem
from nsac.models import NetworkConfig

ALLOCATIONS = {torch.empty, torch.empty_like, torch.zeros, torch.ones, torch.eye, torch.rand, torch.randn}
"""Functions with which methods create weights and buffers."""
SPARE_NUMBERS = (
    1 << 20
)  # numbers that a method may create besides twice its stored ones: constants, intermediate results
MAX_PAIRS_PER_SYNAPSE = 100  # pairs of neurons of a circuit per synapse; the sparsest wiring has about 40
KEY_BIAS = "key.synapses.bias"  # one such tensor for each attention


@contextlib.contextmanager
def stored_sizes(
    method: type[AbstractMethod], problem: AbstractProblem, tensors: Mapping[str, Tensor]
) -> Iterator[None]:
    """In this context a method may be built from a stored problem, whose tensors are these.

    A `ValueError` if it would need more memory than the tensors account for, or a circuit of another size.
    """
    attentions = [name.removesuffix(KEY_BIAS) for name in tensors if name.endswith(KEY_BIAS)]
    if not attentions and not issubclass(method, AbstractSolved):
        raise ValueError(f"The tensors of method {method.name!r} must include those of its attention.")
    for prefix in attentions:
        _check_network(problem.network, tensors, prefix)
    keys = problem.input_dim + len(getattr(problem, "categories", ())) + 1
    if problem.network.topk > max(NetworkConfig.topk, keys):
        raise ValueError(f"`topk` must be at most the number of keys, {keys}. Got {problem.network.topk} instead.")
    with _Allowance(SPARE_NUMBERS + 2 * sum(tensor.numel() for tensor in tensors.values())):
        yield


def _check_network(network: NetworkConfig, tensors: Mapping[str, Tensor], attention: str) -> None:
    """The wiring is built neuron by neuron, before there are tensors to count."""

    def count(*names: str) -> int:
        found = [tensors.get(attention + name) for name in names]
        return sum(0 if tensor is None else tensor.numel() for tensor in found)

    circuit = [f"backbone.{layer}" for layer in ("sensory", "inter", "motor")]
    stored = {
        "d_model": count("key.synapses.bias"),
        "num_heads": count("clock.t_a"),
        "circuit_units": count(*(f"{layer}.bias" for layer in circuit)),
    }
    for name, size in stored.items():
        if getattr(network, name) != size:
            raise ValueError(f"`{name}` must be that of the tensors, {size}. Got {getattr(network, name)!r} instead.")
    pairs = network.circuit_units * (network.circuit_units + 2 * network.d_model // network.num_heads)
    if pairs > MAX_PAIRS_PER_SYNAPSE * count(*(f"{layer}.weight" for layer in circuit)):
        raise ValueError(f"`circuit_units` has too few synapses in the tensors. Got {network.circuit_units}.")


class _Allowance(TorchFunctionMode):
    """Limits how many numbers the functions of `ALLOCATIONS` create; the limit is checked before each of them."""

    def __init__(self, numbers: int):
        super().__init__()
        self.numbers = numbers

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in ALLOCATIONS and torch.device(kwargs.get("device") or "cpu").type != "meta":
            planned = {name: value for name, value in kwargs.items() if name != "generator"} | {"device": "meta"}
            self.numbers -= func(*args, **planned).numel()  # a tensor on this device has no storage
            if self.numbers < 0:
                raise ValueError("The sizes of the problem must be those of the tensors. They are larger.")
        return func(*args, **kwargs)
