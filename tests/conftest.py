import pytest
import torch

ALPHA = 1e-5
"""Level of every statistical test: with a fixed seed, a failure means a wrong line, not bad luck."""

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=0, help="shake the random numbers of all tests")


@pytest.fixture
def seed(request) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def generator(seed) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
