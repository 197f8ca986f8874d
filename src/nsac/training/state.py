"""The state of a training run: steps, validation, snapshots."""

import copy
import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from nsac.training.checkpoint import CheckpointError, Snapshot
from nsac.training.config import TrainConfig, ema_decay, learning_rate_factor
from nsac.training.data import Data, Order, derive_seed

FACTS = ("step", "best_step", "best_score", "history", "stale", "losses", "values")
"""Attributes of a run that a snapshot contains as plain data."""
MEDIAN_WINDOW = 100  # number of latest losses whose median a loss is compared with


class RunState:
    """The complete state that determines the result of a run.

    `fabric` is launched: that of Lightning, or `OneProcess`; the others are arguments of `train`.
    """

    def __init__(
        self, fabric: Any, model: Any, train_data: Data, validation_data: Data, config: TrainConfig, seed: int
    ):
        self.fabric, self.model, self.config, self.seed = fabric, model, config, seed
        self.train_data, self.validation_data = train_data, validation_data
        sizes = getattr(train_data, "sizes", None)
        self.order = Order(len(train_data), config.batch_size, seed, fabric.global_rank, fabric.world_size, sizes)
        self.steps = config.max_steps or config.epochs * self.order.batches
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.trained:
            raise ValueError("`model` must have a parameter that requires a gradient. Got none instead.")
        decay = [p for name, p in self.trained.items() if not name.endswith("bias")]
        others = [p for name, p in self.trained.items() if name.endswith("bias")]
        groups = [{"params": decay, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW([g for g in groups if g["params"]], lr=config.learning_rate, fused=True)
        self.objective, self.optimiser = fabric.setup(_Objective(model), optimiser)
        self.average = model if config.ema is None else copy.deepcopy(model).requires_grad_(False)
        averaged = dict(self.average.named_parameters())
        self.averaged = [averaged[name] for name in self.trained]
        self.generator = torch.Generator(fabric.device).manual_seed(derive_seed(seed, "noise", fabric.global_rank))
        self.step, self.best_step, self.best_score = 0, 0, math.inf
        self.best = _copies(self.average)
        self.history: list[dict[str, Any]] = []
        self.stale = 0  # validations since the best one
        self.losses: list[float] = []  # magnitudes of the latest ones
        self.values: dict[str, float] = {}  # loss and its parts at the latest step, if not yet reported
        self.started = time.monotonic()
        self._buffers = [(m._buffers, name) for m in model.modules() for name, b in m._buffers.items() if b is not None]
        self._before: tuple[Tensor, list[Tensor]] | None = None  # generator and buffers at the start of this step
        self.update_in_progress = False  # the state is inconsistent until the update is complete
        self.stop_agreed = False  # all processes stop after this step
        model.train()

    @property
    def learning_rate(self) -> float:
        """Learning rate of the latest step, or of the first one before it."""
        config, index = self.config, max(0, self.step - 1)
        return config.learning_rate * learning_rate_factor(index, self.steps, config.warmup, config.schedule)

    @property
    def finished(self) -> bool:
        """Whether all steps are done, or patience has run out."""
        return self.step >= self.steps or (self.config.patience is not None and self.stale >= self.config.patience)

    @property
    def validation_due(self) -> bool:
        """Whether the weights after this step are yet to be validated."""
        on_time = self.step > 0 and (self.step % self.config.validate_every == 0 or self.step == self.steps)
        return on_time and not (self.history and self.history[-1]["step"] == self.step)

    def compute_gradient(self) -> tuple[dict[str, float], bool]:
        """Begin a step: the loss and its parts, and whether the gradient is finite; it is clipped if it is."""
        self._before = self.generator.get_state(), [owner[name].clone() for owner, name in self._buffers]
        batch = self.fabric.to_device(self.train_data.batch(self.order.rows(self.step)))
        self.optimiser.zero_grad()
        loss = self.objective(batch, self.generator)
        self.fabric.backward(loss)
        gradient_is_finite = True
        try:
            self.fabric.clip_gradients(self.objective, self.optimiser, max_norm=self.config.clip or math.inf)
        except RuntimeError as err:  # raised before anything is scaled, so the gradient can still be inspected
            if "non-finite" not in str(err):
                raise
            gradient_is_finite = False
        parts = getattr(self.model, "parts", {})
        values = torch.stack([*(part.detach() for part in parts.values()), loss.detach()])  # for one transfer
        if self.fabric.world_size > 1:
            values = self.fabric.all_reduce(values)  # the mean
        return dict(zip((*parts, "loss"), values.tolist(), strict=True)), gradient_is_finite

    def update(self, values: dict[str, float]) -> None:
        """Complete a step, whose loss and parts are `values`."""
        self.update_in_progress = True
        self.step += 1
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate
        self.optimiser.step()
        if self.config.ema is not None:
            weight = 1 - ema_decay(self.config.ema, self.step - 1)
            with torch.no_grad():
                torch._foreach_lerp_(self.averaged, list(self.trained.values()), weight)  # pyright: ignore
        self.values, self.losses = values, [*self.losses[1 - MEDIAN_WINDOW :], abs(values["loss"])]
        self.update_in_progress, self._before = False, None

    @torch.no_grad()
    def validate(self) -> None:
        """Score the average by its negative log-likelihood per validation entry, and keep it if that is the lowest.

        The noise of a row is fixed, so scores are comparable.
        """
        fabric, data = self.fabric, self.validation_data
        if self.average is not self.model:
            for mean, new in zip(self.average.buffers(), self.model.buffers(), strict=True):
                mean.copy_(new)
        self.average.eval()
        total, count = torch.zeros((), dtype=torch.float64), 0
        generator = torch.Generator(fabric.device)
        for number, rows in enumerate(torch.arange(len(data)).split(self.config.validation_batch_size)):
            if number % fabric.world_size == fabric.global_rank:
                generator.manual_seed(derive_seed(self.seed, "validation", number))
                batch = fabric.to_device(data.batch(rows))
                if self.config.precision != "32-true":
                    batch = fabric.strategy.precision.convert_input(batch)
                with fabric.autocast():
                    nll, entries = self.average.validation(batch, generator)
                total += nll.cpu().double()
                count += entries
        self.model.train()
        if fabric.world_size > 1:
            sums = torch.stack([total, total.new_tensor(count)]).to(fabric.device)
            total, count = fabric.all_reduce(sums, reduce_op="sum")
        score = float(total / count)
        self.update_in_progress = True
        entry = {"step": self.step, "parts": self.values, "validation": score, "learning_rate": self.learning_rate}
        self.history.append(entry | {"seconds": time.monotonic() - self.started})
        self.stale += 1
        if score < self.best_score:  # never true of NaN
            self.best, self.best_score, self.best_step, self.stale = _copies(self.average), score, self.step, 0
        self.update_in_progress = False

    def load_best(self) -> None:
        """Load the best weights into the model."""
        _load(self.model, self.best)
        self.optimiser.zero_grad()
        self.model.eval()

    def rewind(self) -> bool:
        """Undo an incomplete step. False if that is not possible, because its update has begun."""
        if self.update_in_progress:
            return False
        if self._before is not None:
            noise, buffers = self._before
            self.generator.set_state(noise)
            for (owner, name), old in zip(self._buffers, buffers, strict=True):
                owner[name].copy_(old)
        return True

    def weights_are_finite(self) -> bool:
        """Whether all weights are finite and no update is in progress."""
        return not self.update_in_progress and all(torch.isfinite(p).all() for p in self.model.parameters())

    def first_not_finite(self, values: dict[str, float]) -> str:
        """Name of the first quantity that is not finite: a parameter, a part of the loss, or a gradient."""
        named = {f"parameter `{name}`": p for name, p in self.model.named_parameters()}
        named |= {"the loss" if n == "loss" else f"`{n}` of the loss": torch.tensor(v) for n, v in values.items()}
        named |= {f"the gradient of `{name}`": p.grad for name, p in self.trained.items() if p.grad is not None}
        return next((name for name, t in named.items() if not torch.isfinite(t).all()), "the norm of the gradient")

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is True in any process."""
        if self.fabric.world_size == 1:
            return flags
        votes = torch.tensor(flags, dtype=torch.int64, device=self.fabric.device)
        return tuple(bool(flag) for flag in self.fabric.all_reduce(votes, reduce_op="sum").tolist())

    def snapshot(self) -> Snapshot:
        """The state. Every process must call it, because each has its own generator."""
        facts = self._origin() | {name: getattr(self, name) for name in FACTS}
        facts["epoch"], facts["position"] = divmod(self.step, self.order.batches)
        facts["seconds"] = time.monotonic() - self.started
        # Gathered by a sum with zeros, because Fabric's `all_gather` calls a function that torch has deprecated.
        own, processes, device = self.generator.get_state(), self.fabric.world_size, self.fabric.device
        noise = torch.zeros(processes, *own.shape, dtype=own.dtype, device=device)
        noise[self.fabric.global_rank] = own.to(device)
        if processes > 1:
            noise = self.fabric.all_reduce(noise, reduce_op="sum")
        tensors = {f"generator/{rank}": state for rank, state in enumerate(noise)}
        tensors |= {f"model/{name}": tensor for name, tensor in _tensors(self.model).items()}
        tensors |= {f"best/{name}": tensor for name, tensor in self.best.items()}
        if self.config.ema is not None:
            tensors |= {f"average/{name}": tensor for name, tensor in _tensors(self.average).items()}
        for name, parameter in self.trained.items():
            for moment, tensor in self.optimiser.state.get(parameter, {}).items():
                tensors[f"optimiser/{moment}/{name}"] = tensor
        return Snapshot(facts, tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot of the same run."""
        facts, tensors = snapshot.facts, snapshot.tensors
        for name, value in self._origin().items():
            if facts.get(name) != value:
                raise CheckpointError(f"belongs to another run: {name} is {facts.get(name)!r}, not {value!r}")
        stored, here = _under("model/", tensors), _tensors(self.model)
        for name in stored.keys() | here.keys():
            in_file, in_model = _describe(stored.get(name)), _describe(here.get(name))
            if in_file != in_model:
                raise CheckpointError(f"belongs to another model: `{name}` is {in_file}, not {in_model}")
        _load(self.model, stored)
        if self.config.ema is not None:
            _load(self.average, _under("average/", tensors))
        self.best = {n: t.to(self.fabric.device, copy=True) for n, t in _under("best/", tensors).items()}
        for key, tensor in _under("optimiser/", tensors).items():
            moment, name = key.split("/", 1)
            self.optimiser.state[self.trained[name]][moment] = tensor.to(self.fabric.device, copy=True)
        self.generator.set_state(tensors[f"generator/{self.fabric.global_rank}"].clone())
        for name in FACTS:
            setattr(self, name, facts[name])
        self.started = time.monotonic() - facts["seconds"]
        if not self.validation_due:
            self.values = {}  # this step has been reported already

    def _origin(self) -> dict[str, Any]:
        """Identity of a run; a checkpoint of another run is refused."""
        rows = [len(self.train_data), len(self.validation_data)]
        return {"config": self.config.key, "seed": self.seed, "rows": rows, "processes": self.fabric.world_size}


class _Objective(nn.Module):
    """The loss as a forward pass, to which Fabric applies its precision and its strategy."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        return self.model.loss(batch, generator)  # type: ignore[operator]


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _copies(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in _tensors(model).items()}


@torch.no_grad()
def _load(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    for name, tensor in _tensors(model).items():
        tensor.copy_(tensors[name])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _describe(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tensor.dtype} of shape {tuple(tensor.shape)}"
