"""Settings of torch that the caller has made do not change what is fitted."""

import contextlib

import pytest
import torch

from nsac import METHODS
from nsac._torch import single_threaded
from nsac.methods import TableProblem, fit
from nsac.training import TensorData, TrainConfig, train
from support.problems import sine
from support.table_problems import numbers, quick

SHORT = TrainConfig(max_steps=3, batch_size=16, validate_every=2)
PROBLEM = TableProblem(1, 1)
MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "all": lambda: _all(),
}


@contextlib.contextmanager
def _all():
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        yield


def single_precision(seed):
    """Autocast has no effect in double precision."""
    split = sine(90, torch.Generator().manual_seed(seed))
    return [
        TensorData(**{k: v.float() for k, v in d.columns.items()}) for d in (split.train, split.validation, split.test)
    ]


@pytest.mark.parametrize("mode", MODES)
def test_an_estimator_has_the_same_bits_when_fitted_in_any_mode(mode):
    x, y = numbers(40)
    expected = quick().fit(x, y).predict(x, return_std=True)
    with MODES[mode]():
        found = quick().fit(x, y).predict(x, return_std=True)
    for one, two in zip(expected, found, strict=True):
        assert one.tolist() == two.tolist()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["nsac", "gmle", "de", "ridge"])
def test_a_method_has_the_same_bits_when_fitted_in_any_mode(name, mode, seed):
    def fitted(inside):
        rows, validation, test = single_precision(seed)
        method = METHODS[name](PROBLEM).float()
        with inside:
            made_in_this_mode = {name: column.clone() for name, column in rows.columns.items()}
            fit(method, TensorData(**made_in_this_mode), validation, SHORT)
        return method.predict(test.columns)

    expected, found = fitted(contextlib.nullcontext()), fitted(MODES[mode]())
    assert torch.equal(found.mean_draws, expected.mean_draws)
    assert torch.equal(found.log_std_draws, expected.log_std_draws)


@pytest.mark.parametrize("mode", MODES)
def test_a_training_run_has_the_same_bits_in_any_mode(mode, seed):
    def trained(inside):
        rows, validation, _ = single_precision(seed)
        method = METHODS["gmle"](PROBLEM).float()
        with inside:
            train(method, rows, validation, SHORT)
        return torch.cat([p.detach().flatten() for p in method.parameters()])

    assert torch.equal(trained(MODES[mode]()), trained(contextlib.nullcontext()))


@pytest.mark.parametrize("mode", MODES)
def test_the_modes_of_the_caller_are_restored(mode):
    def modes():
        return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")

    with MODES[mode]():
        before = modes()
        with single_threaded():
            assert modes() == (True, False, False)
        assert modes() == before


def test_threads_and_precision_of_the_caller_are_restored():
    before = torch.get_num_threads(), torch.get_default_dtype()
    with contextlib.suppress(RuntimeError), single_threaded():
        assert (torch.get_num_threads(), torch.get_default_dtype()) == (1, torch.float32)
        raise RuntimeError
    assert (torch.get_num_threads(), torch.get_default_dtype()) == before
