"""Small tables, and a regressor that is fitted in no time, for the tests of this folder."""

import numpy as np
import pandas as pd

from nsac import NSACRegressor

QUICK = {"max_steps": 5, "batch_size": 16, "weight_decay": 1.0}


def quick(**more) -> NSACRegressor:
    return NSACRegressor(**{"random_state": 0, "members": 2, "training": QUICK} | more)


def numbers(n: int = 60, features: int = 3, outputs: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, features))
    y = x @ random.normal(size=(features, max(1, outputs))) + 0.1 * random.normal(size=(n, max(1, outputs)))
    return x, y if outputs else y[:, 0]


def mixed(n: int = 80, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Numbers with holes, text, a category and a truth value."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "width": random.normal(5, 2, n),
            "count": random.integers(0, 9, n),
            "colour": random.choice(["red", "green", "blue"], n),
            "grade": pd.Categorical(random.choice(list("abc"), n)),
            "new": random.random(n) > 0.5,
        }
    )
    y = frame["width"] + 2 * (frame["colour"] == "red") + 0.1 * random.normal(size=n)
    frame.loc[::7, "width"] = np.nan
    frame.loc[::9, "colour"] = None
    return frame, y.rename("price")
