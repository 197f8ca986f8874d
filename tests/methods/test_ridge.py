import numpy as np
import torch

from nsac.methods import METHODS, TableProblem
from nsac.methods.ridge import PENALTIES
from nsac.training import TensorData


def test_ridge_agrees_with_scikit_learn(generator):
    from sklearn.linear_model import Ridge

    x, noise = torch.randn(300, 4, generator=generator), torch.randn(300, 2, generator=generator)
    y = x @ torch.randn(4, 2, generator=generator) + 2 + 0.1 * noise
    train, validation = TensorData(x=x[:200], y=y[:200]), TensorData(x=x[200:], y=y[200:])
    ridge = METHODS["ridge"](TableProblem(4, 2))
    ridge.solve(train, validation)
    fits = [Ridge(alpha=a * 200).fit(x[:200], y[:200]) for a in PENALTIES]
    best = min(fits, key=lambda fit: ((fit.predict(x[200:]) - y[200:].numpy()) ** 2).mean())
    p = ridge.predict(validation.columns)
    np.testing.assert_allclose(p.mean, best.predict(x[200:]), rtol=1e-8)
    torch.testing.assert_close(p.std[0] ** 2, (p.mean - y[200:]).square().mean(0))
