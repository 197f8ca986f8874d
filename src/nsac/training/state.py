"""The state of a run, and what changes, saves and restores it."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nsac.training.checkpoint import CheckpointError, Snapshot
from nsac.training.config import TrainConfig
from nsac.training.contract import Data
from nsac.training.schedule import Order, derive_seed, ema_decay, rate_share


class RunState:
    """Everything that the bits of the result depend on.

    Args:
        fabric: launched.
        model: what to train; a `Trainable`.
        train_data, validation_data: rows.
        config: numbers of the run.
        seed: of data order and noise.
    """

    def __init__(self, fabric, model, train_data: Data, validation_data: Data, config: TrainConfig, seed: int):
        self.fabric, self.model, self.config, self.seed = fabric, model, config, seed
        self.train_data, self.validation_data = train_data, validation_data
        self.order = Order(len(train_data), config.batch_size, seed, fabric.global_rank, fabric.world_size)
        self.steps = config.max_steps or config.epochs * self.order.batches
        optimiser = _optimiser(model, config)
        self.objective, self.optimiser = fabric.setup(_Objective(model), optimiser)
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.average = model if config.ema is None else copy.deepcopy(model).requires_grad_(False)
        averaged = dict(self.average.named_parameters())
        self.averaged = [averaged[name] for name in self.trained]
        self.generator = torch.Generator(fabric.device).manual_seed(derive_seed(seed, "noise", fabric.global_rank))
        self.step, self.best_step, self.best_score = 0, 0, math.inf
        self.best = _copies(self.average)
        self._buffers = [(m._buffers, name) for m in model.modules() for name, b in m._buffers.items() if b is not None]
        self._before: tuple[Tensor, list[Tensor]] | None = None  # generator and buffers at the start of this step
        self.torn = False  # amid a change that must be whole
        model.train()

    @property
    def learning_rate(self) -> float:
        """Rate of the latest step, or of the first before there is one."""
        return self._rate(max(0, self.step - 1))

    def advance(self, check: Callable[[dict[str, float], bool], None]) -> dict[str, float]:
        """One step; gives the loss and its parts. `check` sees them, and if the gradient is finite, and may object."""
        self._before = self.generator.get_state(), [owner[name].clone() for owner, name in self._buffers]
        batch = self.fabric.to_device(self.train_data.batch(self.order.rows(self.step)))
        self.optimiser.zero_grad()
        loss = self.objective(batch, self.generator)
        self.fabric.backward(loss)
        gradient_is_finite = self._clip()
        values = self._fetch(loss)
        check(values, gradient_is_finite)
        self.torn = True
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate(self.step)
        self.optimiser.step()
        if self.config.ema is not None:
            weight = 1 - ema_decay(self.config.ema, self.step)
            with torch.no_grad():
                torch._foreach_lerp_(self.averaged, list(self.trained.values()), weight)  # pyright: ignore
        self.step += 1
        self.torn, self._before = False, None
        return values

    @torch.no_grad()
    def validate(self) -> float:
        """Negative log-likelihood per validation entry. A row meets the same noise each time, so scores compare."""
        fabric, data = self.fabric, self.validation_data
        self._follow_buffers()
        self.average.eval()
        total, count = torch.zeros((), dtype=torch.float64), 0
        generator = torch.Generator(fabric.device)
        for number, rows in enumerate(torch.arange(len(data)).split(self.config.validation_batch_size)):
            if number % fabric.world_size == fabric.global_rank:
                generator.manual_seed(derive_seed(self.seed, "validation", number))
                batch = fabric.strategy.precision.convert_input(fabric.to_device(data.batch(rows)))
                with fabric.autocast():
                    nll, entries = self.average.validation(batch, generator)
                total += nll.cpu().double()
                count += entries
        self.model.train()
        if fabric.world_size > 1:
            both = torch.stack([total, total.new_tensor(count)]).to(fabric.device)
            total, count = fabric.all_reduce(both, reduce_op="sum")
        return float(total / count)

    def keep(self, score: float) -> None:
        """The weights just validated are the best."""
        self.best, self.best_score, self.best_step = _copies(self.average), score, self.step

    def load_best(self) -> None:
        """The best weights become the model's."""
        _load(self.model, self.best)
        self.optimiser.zero_grad()
        self.model.eval()

    def rewind(self) -> bool:
        """Forget a step that was begun and not ended. False if it is too late, because it has changed something."""
        if self.torn:
            return False
        if self._before is not None:
            noise, buffers = self._before
            self.generator.set_state(noise)
            for (owner, name), old in zip(self._buffers, buffers, strict=True):
                owner[name].copy_(old)
        return True

    def weights_are_finite(self) -> bool:
        """Whether the weights can be used."""
        return not self.torn and _first_bad(dict(self.model.named_parameters())) is None

    def first_bad(self, values: dict[str, float]) -> str:
        """Name of the first thing that is not finite, in the order in which trouble spreads."""
        name = _first_bad(dict(self.model.named_parameters()))
        if name is not None:
            return f"parameter `{name}`"
        bad = [name for name, value in values.items() if not math.isfinite(value)]
        if bad:
            return f"`{bad[0]}` of the loss" if bad[0] != "loss" else "the loss"
        name = _first_bad({name: p.grad for name, p in self.trained.items() if p.grad is not None})
        return "the norm of the gradient" if name is None else f"the gradient of `{name}`"

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """True where it is true in any process."""
        if self.fabric.world_size == 1:
            return flags
        votes = torch.tensor(flags, dtype=torch.int64, device=self.fabric.device)
        return tuple(bool(flag) for flag in self.fabric.all_reduce(votes, reduce_op="sum").tolist())

    def snapshot(self, more: dict[str, Any]) -> Snapshot:
        """The state, and `more` facts. Every process must ask for it, because each has its own noise."""
        epoch, position = divmod(self.step, self.order.batches)
        facts = self._origin() | {
            "step": self.step,
            "epoch": epoch,
            "position": position,
            "best_step": self.best_step,
            "best_score": self.best_score,
        }
        tensors = {f"generator/{rank}": noise for rank, noise in enumerate(self._gather(self.generator.get_state()))}
        tensors |= {f"model/{name}": tensor for name, tensor in _tensors(self.model).items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        if self.config.ema is not None:
            tensors |= {f"average/{name}": tensor for name, tensor in _tensors(self.average).items()}
        for name, parameter in self.trained.items():
            for part, tensor in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser/{part}/{name}"] = tensor
        return Snapshot(facts | more, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of the same run."""
        facts, tensors = snapshot.facts, snapshot.tensors
        for name, value in self._origin().items():
            if facts.get(name) != value:
                raise CheckpointError(f"belongs to another run: {name} is {facts.get(name)!r} there and {value!r} here")
        stored = _under("model/", tensors)
        here = _tensors(self.model)
        for name in stored.keys() | here.keys():
            there, this = (_kind(group.get(name)) for group in (stored, here))
            if there != this:
                raise CheckpointError(f"belongs to another model: `{name}` is {there} there and {this} here")
        _load(self.model, stored)
        if self.config.ema is not None:
            _load(self.average, _under("average/", tensors))
        self.best = {n: t.to(self.fabric.device, copy=True) for n, t in _under("best/", tensors).items()}
        for key, tensor in _under("optimiser/", tensors).items():
            part, name = key.split("/", 1)
            self.optimiser.state[self.trained[name]][part] = tensor.to(self.fabric.device, copy=True)
        self.generator.set_state(tensors[f"generator/{self.fabric.global_rank}"].clone())
        self.step, self.best_step, self.best_score = (facts[name] for name in ("step", "best_step", "best_score"))

    def _origin(self) -> dict[str, Any]:
        """What a run is begun with; a checkpoint of another run is refused."""
        return {
            "config": self.config.key,
            "seed": self.seed,
            "rows": [len(self.train_data), len(self.validation_data)],
            "processes": self.fabric.world_size,
        }

    def _rate(self, step: int) -> float:
        share = rate_share(step, self.steps, self.config.warmup, self.config.schedule)
        return self.config.learning_rate * share

    def _clip(self) -> bool:
        """Clip the gradient, if it is finite."""
        try:
            self.fabric.clip_gradients(self.objective, self.optimiser, max_norm=self.config.clip or math.inf)
        except RuntimeError as err:  # raised before anything is scaled, so the bad gradient can still be named
            if "non-finite" not in str(err):
                raise
            return False
        return True

    def _fetch(self, loss: Tensor) -> dict[str, float]:
        """Loss and parts as numbers, in one transfer; means over processes."""
        parts = getattr(self.model, "parts", {})
        values = torch.stack([*(part.detach() for part in parts.values()), loss.detach()])
        if self.fabric.world_size > 1:
            values = self.fabric.all_reduce(values)
        return dict(zip((*parts, "loss"), values.tolist(), strict=True))

    def _gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, (processes, ...)."""
        # A sum with zeros, because Fabric's `all_gather` calls a function that torch has deprecated.
        rank, processes, device = self.fabric.global_rank, self.fabric.world_size, self.fabric.device
        rows = torch.zeros(processes, *tensor.shape, dtype=tensor.dtype, device=device)
        rows[rank] = tensor.to(device)
        return self.fabric.all_reduce(rows, reduce_op="sum") if processes > 1 else rows

    def _follow_buffers(self) -> None:
        if self.average is not self.model:
            for mean, new in zip(self.average.buffers(), self.model.buffers(), strict=True):
                mean.copy_(new)


class _Objective(nn.Module):
    """The loss as a forward pass: what Fabric's precision and several processes hook into."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        return self.model.loss(batch, generator)  # type: ignore[operator]


def _optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise ValueError("`model` must have a parameter that requires a gradient. Got none instead.")
    decay = [p for name, p in trained if not name.endswith("bias")]
    others = [p for name, p in trained if name.endswith("bias")]
    groups = [{"params": decay, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=config.learning_rate, fused=True)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, each once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _copies(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in _tensors(model).items()}


@torch.no_grad()
def _load(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    for name, tensor in _tensors(model).items():
        tensor.copy_(tensors[name])


def _first_bad(tensors: dict[str, Tensor]) -> str | None:
    return next((name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()), None)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _kind(tensor: Tensor | None) -> str:
    return "not there" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
