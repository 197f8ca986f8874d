import pytest
import torch

from nsac.methods import NSACMethod, TableProblem
from nsac.methods.row_moments import RowMoments, supports
from nsac.models.network import NetworkConfig
from nsac.training import TensorData

PROBLEMS = {
    "numbers": TableProblem(3, 1),
    "missing values": TableProblem(3, 1, missing=True),
    "categories": TableProblem(2, 1, categories=(3, 1), missing=True),
    "several outputs": TableProblem(3, 2),
    "many outputs": TableProblem(3, 9),
    "more keys than slots": TableProblem(3, 1, network=NetworkConfig(topk=11, num_heads=2)),
    "numbers in use": TableProblem(4, 1, columns=(0, 2)),
}


def rows(problem: TableProblem, n: int = 40, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    columns = {"x": torch.randn(n, problem.input_dim, generator=generator, dtype=torch.float64)}
    if problem.missing:
        columns["x"][torch.rand(n, problem.input_dim, generator=generator) < 0.2] = torch.nan
    if problem.categories:
        columns["c"] = torch.randint(2, (n, len(problem.categories)), generator=generator)
    return columns


def calibrated(problem: TableProblem) -> NSACMethod:
    """With weights as if it had been trained: no gate, bias or skip is at its initial value."""
    method, generator = NSACMethod(problem, seed=1).double(), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    method.prepare(TensorData(**rows(problem, seed=3), y=torch.zeros(40, problem.output_dim)))
    assert method.novelty is not None
    method.novelty.log_amplitude.fill_(-1.0)
    return method.eval()


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)], ids=["double", "single"]
)
def test_moments_are_those_of_the_draws(problem, dtype, tolerance):
    method, columns = calibrated(problem), rows(problem)
    columns["x"][:3] *= 30  # out of distribution
    draws = method.predict(columns, 5)
    moments = RowMoments.of(method, 5, dtype)(columns)
    for mine, expected in zip(moments, (draws.mean, draws.aleatoric, draws.epistemic), strict=True):
        assert mine.dtype == torch.float64
        torch.testing.assert_close(mine, expected, rtol=tolerance, atol=tolerance / 100)


def test_only_a_calibrated_method_that_attends_to_every_slot_is_supported():
    assert supports(calibrated(PROBLEMS["numbers"]))
    assert not supports(NSACMethod(PROBLEMS["numbers"]))
    assert not supports(NSACMethod(PROBLEMS["numbers"], objective="paper"))
    assert not supports(calibrated(TableProblem(3, 1, network=NetworkConfig(topk=4))))
    assert not supports(calibrated(TableProblem(3, 1, tokens="features")))


def test_a_missing_value_that_was_never_missing_is_an_error():
    moments, columns = RowMoments.of(calibrated(PROBLEMS["numbers"]), 5, torch.float64), rows(PROBLEMS["numbers"])
    columns["x"][0, 0] = torch.nan
    with pytest.raises(ValueError, match="`x` must"):
        moments(columns)
