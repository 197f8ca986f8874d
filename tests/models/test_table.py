import pytest
import torch

from nsac.methods import METHODS, TableProblem
from nsac.models import Network, NetworkConfig, TableEncoder

NAN = float("nan")


@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_a_missing_number_differs_from_a_zero(tokens, generator):
    encoder = TableEncoder(3, tokens=tokens, missing=True)
    x = torch.randn(4, 3, generator=generator)
    with_missing = x.clone()
    with_missing[:, 1] = NAN
    seen, whole = encoder({"x": with_missing}), encoder({"x": x})
    zero = encoder({"x": with_missing.nan_to_num(0.0)})
    for name in ("query", "skip"):
        assert getattr(seen, name).isfinite().all()
        assert not torch.allclose(getattr(seen, name), getattr(zero, name))
    if tokens == "features":
        assert torch.equal(seen.mask, with_missing.isnan())
        assert torch.equal(seen.tokens[:, [0, 2]], whole.tokens[:, [0, 2]])
    else:
        assert not torch.allclose(seen.tokens, zero.tokens)


@pytest.mark.parametrize("tokens", ["slots", "features"])
def test_columns_that_are_not_in_use_have_no_effect(tokens, generator):
    encoder = TableEncoder(4, tokens=tokens, missing=True, columns=(1, 3))
    x = torch.randn(5, 4, generator=generator)
    hidden = x.clone()
    hidden[:, [0, 2]] = NAN
    for a, b in zip(encoder({"x": x}), encoder({"x": hidden}), strict=True):
        assert (a is b) or torch.equal(a, b)
    assert torch.equal(encoder.describe({"x": x}), encoder.describe({"x": hidden}))
    assert encoder.describe({"x": x}).shape == (5, 1, encoder.description_dim)


def test_the_token_of_a_missing_feature_is_not_attended_to(generator):
    network = Network(TableEncoder(4, tokens="features", missing=True), NetworkConfig(), "ode")
    x = torch.randn(6, 4, generator=generator)
    x[:, 2] = NAN
    encoded = network.encoder({"x": x})
    poisoned = encoded._replace(tokens=encoded.tokens.clone())
    poisoned.tokens[:, 2] = 1e6
    one, two = network.attend(encoded), network.attend(poisoned)
    assert torch.equal(one, two)


def test_categories_are_tokens_and_zero_means_missing():
    encoder = TableEncoder(1, categories=(3, 2), tokens="features")
    c = torch.tensor([[1, 2], [0, 1], [3, 0]])
    encoded = encoder({"x": torch.zeros(3, 1), "c": c})
    assert encoded.tokens.shape == (3, 3, 32)
    assert encoded.mask.tolist() == [[False, False, False], [False, True, False], [False, False, True]]
    assert not torch.equal(encoded.tokens[0, 1], encoded.tokens[2, 1])


def test_a_category_out_of_range_is_refused(generator):
    gmle = METHODS["gmle"](TableProblem(1, 1, categories=(2,)))
    with pytest.raises(ValueError, match="column 0"):
        gmle.predict({"x": torch.zeros(2, 1), "c": torch.tensor([[1], [3]])})


def test_a_batch_without_its_categories_is_refused():
    gmle = METHODS["gmle"](TableProblem(1, 1, categories=(2,)))
    with pytest.raises(ValueError, match="'c'"):
        gmle.predict({"x": torch.zeros(2, 1)})


def test_a_description_of_a_row_with_missing_values_is_finite(generator):
    x = torch.randn(4, 10, 3, generator=generator)
    x[0, :, 1], x[1, 3:6, 0], x[2, -1, 2], x[3, 0, 0] = (float("nan"),) * 4
    table = TableEncoder(3, (4,), missing=True)
    described = table.describe({"x": x[:, 0], "c": torch.tensor([[0], [1], [2], [4]])})
    assert torch.isfinite(described).all() and described.shape[-1] == table.description_dim == 3 + 3 + 5
