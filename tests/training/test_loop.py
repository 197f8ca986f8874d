import dataclasses
import math
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from nsac.training import DivergedError, Interrupted, TrainConfig, train
from nsac.training.config import ema_decay
from nsac.training.loop import DeferredInterrupt
from nsac.training.one_process import OneProcess
from support.training_problems import Line, Table, bits, same

SHORT = TrainConfig(max_steps=40, batch_size=16, validate_every=10, learning_rate=0.03)


def run(model=None, config=SHORT, data=None, **options):
    model = Line() if model is None else model
    result = train(model, Table() if data is None else data, Table(20, seed=1), config, **options)
    return model, result


def change(config=SHORT, **fields):
    return dataclasses.replace(config, **fields)


class Scripted(Line):
    """A model with given validation scores."""

    def __init__(self, scores):
        super().__init__()
        self.scores, self.found = iter(scores), []

    def __deepcopy__(self, memo):
        return self  # with EMA off no copy is needed; the scores are shared

    def validation(self, batch, generator):
        self.found.append(bits(self))
        return torch.tensor(next(self.scores)), 1


def test_training_solves_a_linear_problem():
    model, result = run(Line(jitter=0), change(max_steps=400, learning_rate=0.1, weight_decay=0.0))
    assert model.weight.flatten().tolist() == pytest.approx([1, -2, 0.5], abs=1e-3)
    assert result.best_score == pytest.approx(0.5 * math.log(2 * math.pi), abs=1e-3)  # of an exact mean, std 1
    assert not model.training and model.weight.grad is None


def test_every_step_is_reported():
    seen = []
    _, result = run(Line(jitter=0), change(max_steps=400, learning_rate=0.1, weight_decay=0.0), report=seen.append)
    assert [p.step for p in seen] == list(range(1, 401)) and seen[-1].steps == 400
    assert seen[8].validation is None and seen[9].validation == result.history[0]["validation"]
    assert seen[0].parts["square"] == seen[0].parts["loss"] > 0.1 > seen[-1].parts["square"]
    assert set(result.history[0]) == {"step", "parts", "validation", "learning_rate", "seconds"}


def test_the_weights_of_the_best_validation_score_are_kept():
    model = Scripted([3.0, 1.0, 2.0, 5.0])
    _, result = run(model, change(ema=None))
    assert (result.best_score, result.best_step, result.steps, result.stopped_early) == (1.0, 20, 40, False)
    assert same(bits(model), model.found[1]) and not same(bits(model), model.found[3])


def test_patience_counts_validations_without_improvement():
    model = Scripted([3.0, 2.0, 2.0, math.nan, 1.0])
    _, result = run(model, change(ema=None, max_steps=1000, patience=2))
    assert (result.steps, result.best_step, result.stopped_early) == (40, 20, True)


def test_a_run_without_a_finite_validation_score_is_an_error():
    with pytest.raises(DivergedError, match="No validation score was finite"):
        run(Scripted([math.nan] * 4), change(ema=None))


def test_averaged_weights_are_those_of_torchs_averaged_model():
    model, config = Line(), change(max_steps=30, validate_every=30, ema=0.7)
    oracle = AveragedModel(model, avg_fn=lambda mean, new, n: mean.lerp(new, 1 - min(0.7, (1 + n) / (10 + n))))
    run(model, config, report=lambda progress: oracle.update_parameters(model))
    torch.testing.assert_close(model.weight, oracle.module.weight)
    assert ema_decay(0.998, 1) == 2 / 11 and ema_decay(0.998, 10**6) == 0.998


def test_buffers_of_the_averaged_model_are_the_latest():
    model, _ = run(config=change(max_steps=30, validate_every=30))
    assert model.seen == 30 * 16


@pytest.mark.parametrize("ema", [None, 0.9])
def test_the_result_depends_on_the_seed_alone(ema, seed):
    first = bits(run(config=change(ema=ema), seed=seed)[0])
    again = bits(run(config=change(ema=ema), seed=seed)[0])
    other = bits(run(config=change(ema=ema), seed=seed + 1)[0])
    assert same(first, again) and not same(first, other)


def test_training_does_not_touch_the_global_random_state():
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    run()
    assert torch.equal(torch_state, torch.get_rng_state())
    assert all(np.array_equal(a, b) for a, b in zip(numpy_state, np.random.get_state(), strict=True))


def test_batches_are_requested_one_step_at_a_time():
    data = Table(70)
    run(data=data, config=change(max_steps=9))
    assert [len(rows) for rows in data.requests] == [16] * 9  # one batch per step, none in advance
    epochs = [sum(data.requests[i : i + 4], []) for i in (0, 4)]
    assert all(len(set(epoch)) == 64 for epoch in epochs) and epochs[0] != epochs[1]


def test_epochs_count_whole_batches():
    assert run(config=TrainConfig(epochs=3, batch_size=16), data=Table(70))[1].steps == 3 * 4
    assert run(config=TrainConfig(epochs=3, batch_size=999), data=Table(70))[1].steps == 3


def test_validation_is_a_mean_over_entries_in_batches_of_any_size():
    scores = [run(config=change(validation_batch_size=n))[1].best_score for n in (3, 512)]
    assert scores[0] == pytest.approx(scores[1])


def test_biases_have_no_weight_decay_and_frozen_parameters_do_not_change():
    model = Line()
    model.extra_bias = nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.extra_weight = nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.frozen = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
    model.loss = lambda batch, generator: (
        Line.loss(model, batch, generator) + 0 * (model.extra_bias.sum() + model.extra_weight.sum())
    )
    run(model, change(weight_decay=1.0, ema=None))
    assert (model.extra_bias == 1).all() and (model.frozen == 1).all() and (model.extra_weight < 1).all()


def test_one_process_without_fabric_gives_the_bits_of_fabric(monkeypatch):
    plain, own = run(Line(), change(clip=0.1))
    monkeypatch.setattr(OneProcess, "suffices", lambda config: False)
    fabric, same = run(Line(), change(clip=0.1))
    assert torch.equal(plain.weight, fabric.weight) and own.best_score == same.best_score


@pytest.mark.parametrize("precision, dtype", [("64-true", torch.float64), ("bf16-mixed", torch.float32)])
def test_the_precision_is_that_of_fabric(precision, dtype):
    class RecordsPrecision(Line):
        def forward(self, x):
            seen.add((x @ self.weight.to(x.dtype)).dtype)
            return super().forward(x.to(self.weight.dtype))

    seen = set()
    model, _ = run(RecordsPrecision(dtype=torch.float32), change(precision=precision))
    assert model.weight.dtype == dtype
    assert seen == {torch.float64 if precision == "64-true" else torch.bfloat16}


@pytest.mark.parametrize("what", ["loss part", "loss", "gradient", "parameter"])
def test_the_quantity_that_is_not_finite_is_named_and_the_last_good_weights_are_restored(what, tmp_path):
    class Bad(Line):
        steps = 0

        def loss(self, batch, generator):
            self.steps += 1
            value = super().loss(batch, generator)
            if self.steps != 13:
                return value
            if what == "parameter":
                self.bias.data.fill_(math.inf)
            if what == "gradient":
                return value + (self.bias * 0).sqrt().sum()  # 0, with a gradient of 0 * inf
            if what == "loss part":
                self.parts = {"fine": value.detach(), "broken": value.detach() * math.nan}
            return value * math.nan

    name = {
        "loss part": "`broken` of the loss",
        "loss": "the loss",
        "gradient": "the gradient of `bias`",
        "parameter": "parameter `bias`",
    }[what]
    model, weights = Bad(), {}
    with pytest.raises(DivergedError, match=f"step 13: {name} is not finite") as caught:
        run(model, change(ema=None), checkpoint=tmp_path, report=lambda p: weights.update({p.step: bits(model)}))
    kept = 10 if what == "parameter" else 12  # weights that are not finite are replaced by the best ones
    assert f"weights after step {kept}" in str(caught.value)
    good = weights[kept]
    assert all(torch.equal(value, good[name]) for name, value in bits(model).items())
    written = sorted(p.name for p in tmp_path.iterdir())
    assert written == ([] if what == "parameter" else ["step-000000012.safetensors"])


def test_a_loss_far_above_its_median_stops_the_run():
    class Explodes(Line):
        steps = 0

        def loss(self, batch, generator):
            self.steps += 1
            return super().loss(batch, generator) * (1e9 if self.steps == 25 else 1)

    with pytest.raises(DivergedError, match="step 25: the loss is .* median"):
        run(Explodes())
    assert run(Explodes(), change(explode=1e12))[1].steps == 40


@pytest.mark.parametrize("where", ["loss", "report", "validation"])
def test_an_interrupted_run_explains_how_to_resume_and_ends_with_the_same_bits(where, tmp_path):
    class Interrupts(Line):
        def loss(self, batch, generator):
            value = super().loss(batch, generator)  # noise was drawn and a buffer changed: both must be undone
            if where == "loss" and self.seen == 16 * 17:
                raise KeyboardInterrupt
            return value

        def validation(self, batch, generator):
            if where == "validation" and self.seen == 16 * 20:
                raise KeyboardInterrupt
            return super().validation(batch, generator)

    def report(progress):
        if where == "report" and progress.step == 20:
            raise KeyboardInterrupt

    undisturbed, expected = run()
    with pytest.raises(Interrupted, match="of 40. To resume, call `train` again") as caught:
        run(Interrupts(), checkpoint=tmp_path, report=report)
    assert isinstance(caught.value, KeyboardInterrupt) and str(tmp_path) in str(caught.value)
    steps = []
    resumed, result = run(checkpoint=tmp_path, report=lambda p: steps.append(p.step))
    assert steps[0] == {"loss": 17, "report": 21, "validation": 20}[where] and steps[-1] == 40
    assert same(bits(resumed), bits(undisturbed))
    assert [h["validation"] for h in result.history] == [h["validation"] for h in expected.history]


def test_an_interrupted_run_without_checkpoint_cannot_be_resumed():
    def report(progress):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="There is no checkpoint; pass `checkpoint=`"):
        run(report=report)


def test_ctrl_c_takes_effect_at_the_end_of_the_step(tmp_path):
    class Pressed(Line):
        def loss(self, batch, generator):
            if self.seen == 16 * 5:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            return super().loss(batch, generator)

    with pytest.raises(Interrupted, match="Stopped at step 6 of 40"):
        run(Pressed(), checkpoint=tmp_path)
    assert same(bits(run(checkpoint=tmp_path)[0]), bits(run()[0]))


def test_the_previous_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with DeferredInterrupt():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_takes_effect_immediately(tmp_path):
    class Impatient(Line):
        def validation(self, batch, generator):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            raise AssertionError("this must not be reached")

    with pytest.raises(Interrupted, match="Stopped at step 10 of 40"):
        run(Impatient(), checkpoint=tmp_path)
    assert same(bits(run(checkpoint=tmp_path)[0]), bits(run()[0]))


def test_a_run_outside_the_main_thread_gives_the_same_bits():
    found = []
    thread = threading.Thread(target=lambda: found.append(bits(run()[0])))
    thread.start()
    thread.join()
    assert same(found[0], bits(run()[0]))


@pytest.mark.parametrize(
    "model, data, error",
    [
        (nn.Linear(3, 1), Table(), "with methods `loss"),
        (object(), Table(), "must be an `nn.Module`"),
        (Line().requires_grad_(False), Table(), "requires a gradient"),
        (Line(), Table(0), "at least one row"),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(model, data, error):
    with pytest.raises((TypeError, ValueError), match=error):
        run(model, data=data)


def test_a_step_of_the_loop_takes_less_than_eight_times_a_bare_step():
    # A ratio in one run, by CPU time: the machine may be slow or busy. Data, checks, clipping and averaging included.
    config = change(max_steps=300, validate_every=10**6)
    ratios = [_seconds_per_step(config) / _seconds_per_bare_step() for _ in range(3)]
    assert min(ratios) < 8


def _seconds_per_bare_step():
    model, rows = Line(), Table().batch(torch.arange(32))
    optimiser, generator = torch.optim.AdamW(model.parameters(), fused=True), torch.Generator()
    start = 0.0
    for step in range(250):
        if step == 50:
            start = time.process_time()
        optimiser.zero_grad()
        model.loss(rows, generator).backward()
        optimiser.step()
    return (time.process_time() - start) / 200


def _seconds_per_step(config):
    times = []

    def report(progress):
        if progress.step in (50, 250):
            times.append(time.process_time())  # of this process: others may be busy

    run(Line(), config, report=report)
    return (times[1] - times[0]) / 200
