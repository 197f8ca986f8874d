import pytest
import torch

from nsac.lab.datasets import catalog, summarise


@pytest.mark.parametrize("name", [name for name in catalog() if name != "jena-2009-2016"])
def test_every_source_can_be_summarised(data, name):
    summary = summarise(name)
    assert list(summary.columns) == ["column", "values", "missing", "min", "max"] and len(summary) > 0


def test_missing_values_are_counted(data):
    summary = summarise("jena-2020").set_index("column")
    assert summary.loc["OT", "missing"] == 50 and summary.loc["T (degC)", "missing"] == 0


def test_spirals_are_summarised_without_the_global_random_state():
    before = torch.get_rng_state()
    assert summarise("spiral").equals(summarise("spiral"))
    assert torch.equal(torch.get_rng_state(), before)
