import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
settings.register_profile("same", derandomize=True, deadline=None)  # the same examples every time, on any machine
settings.load_profile("same")


@pytest.fixture(autouse=True)
def double() -> None:
    """Every test begins in double precision, whatever a thread of the one before left behind."""
    torch.set_default_dtype(torch.float64)


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=0, help="shake the random numbers of all tests")


@pytest.fixture
def seed(request) -> int:
    return request.config.getoption("--seed")


@pytest.fixture
def generator(seed) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; a test that asks for it is skipped where there is none."""
    folder = os.environ.get("NSAC_DATA")
    if not folder:
        pytest.skip("real data is needed: set NSAC_DATA to a folder laid out as `nsac data info` lists the files")
    return Path(folder)
