import numpy as np
import pytest
import torch

from nsac import Prediction
from nsac.estimators.imputation import MAX_DONORS, HotDeck


def rows(n=40):
    g = torch.Generator().manual_seed(0)
    c = torch.randint(1, 4, (n, 1), generator=g)
    return {"x": torch.randn(n, 2, generator=g, dtype=torch.float32), "c": c}


def fitted(columns=None) -> HotDeck:
    columns = columns or rows()
    return HotDeck.fit(columns, np.arange(len(columns["x"])), np.random.RandomState(0))


def first_number(columns):
    """As a model whose draws are all the first number."""
    mean = columns["x"][:, 0].double().expand(2 * MAX_DONORS, -1).clone()
    return Prediction(mean, torch.zeros_like(mean))


def test_complete_rows_are_predicted_as_they_are():
    columns = rows()
    p = fitted().predict(columns, first_number)
    torch.testing.assert_close(p.mean, columns["x"][:, 0].double())


def test_every_draw_of_an_incomplete_row_has_its_donor():
    columns, deck = rows(), fitted()
    columns["x"][0, 0] = torch.nan
    p = deck.predict(columns, first_number)
    donors = deck.donors["x"][:, 0].double()
    torch.testing.assert_close(p.mean_draws[:, 0], torch.cat([donors, donors]))


def test_missing_values_that_were_in_training_are_not_imputed():
    columns = rows()
    columns["x"][3, 0] = torch.nan
    assert fitted(columns).predict(columns, first_number).mean_draws[:, 3].isnan().all()


def test_a_deck_survives_its_tensors():
    deck = fitted()
    again = HotDeck.from_tensors(deck.to_tensors(), 2, (3,))
    assert all(torch.equal(deck.donors[name], again.donors[name]) for name in ("x", "c"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("examples.x", torch.zeros(20, 3)),  # another width
        ("examples.x", torch.full((20, 2), torch.nan)),  # missing where nothing was
        ("examples.x", torch.eye(20, 2).masked_fill(torch.eye(20, 2) > 0, torch.nan)),  # in two rows
        ("examples.x", torch.eye(20, 2).masked_fill(torch.eye(20, 2) > 0, torch.inf)),
        ("examples.c", torch.full((20, 1), 4)),  # a category that is not there
        ("examples.c", torch.zeros(20, 1)),  # not a code
        ("holes.x", torch.zeros(2)),  # not truth values
    ],
)
def test_tensors_that_do_not_fit_are_refused(name, value):
    with pytest.raises(ValueError, match="must"):
        HotDeck.from_tensors(fitted().to_tensors() | {name: value}, 2, (3,))
