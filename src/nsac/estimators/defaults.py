"""Default hyperparameters of a regressor, by the number of rows."""

from typing import Any

WEIGHT_DECAYS = (0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.2, 5.0, 8.0)
"""Weight decays that are searched, for 1000 rows; they fall with the square root of the number of rows. Noisy targets
need a strong decay, and the noise is not known beforehand."""
DEFAULT_WEIGHT_DECAY = 2.0
"""Weight decay, for 1000 rows, of tables that are too small for a search."""
MIN_SEARCH_ROWS = 100
"""Rows from which on the weight decay is searched and the default ensemble may have 8 members."""
MAX_ROWS_OF_8_MEMBERS = 1500
"""Rows up to which the default ensemble has 8 members; beyond it has 4."""
LARGE_TABLE_ROWS = 3000
"""Rows from which on every second weight decay is searched, and batches are larger."""
LEARNING_RATE = 6e-3
"""High, since the weight decay is strong."""
STEPS_FOR_1000_ROWS, STEPS_EXPONENT, MAX_STEPS_PER_ROW = 450, 0.55, 4
"""Training steps: 450 for 1000 rows, growing as the power 0.55 of the number of rows, and at most 4 per row."""


def default_members(rows: int) -> int:
    """Ensemble size."""
    return 8 if MIN_SEARCH_ROWS <= rows <= MAX_ROWS_OF_8_MEMBERS else 4


def weight_decay_candidates(rows: int, train_rows: int) -> list[dict[str, Any]]:
    """Weight decays to search, ascending, as fields of `TrainConfig`."""
    decays = WEIGHT_DECAYS[:: 2 if rows > LARGE_TABLE_ROWS else 1]
    if rows < MIN_SEARCH_ROWS:
        decays = (DEFAULT_WEIGHT_DECAY,)
    return [{"weight_decay": decay * (1000 / train_rows) ** 0.5} for decay in decays]


def default_training(rows: int) -> dict[str, Any]:
    """Fields of `TrainConfig`.

    Weight decay regularises better than early stopping would; so only the last weights are validated.
    """
    steps = int(min(MAX_STEPS_PER_ROW * rows, STEPS_FOR_1000_ROWS * (rows / 1000) ** STEPS_EXPONENT))
    batch_size = min(128 if rows < LARGE_TABLE_ROWS else 256, rows)
    return {"max_steps": steps, "validate_every": steps, "batch_size": batch_size, "learning_rate": LEARNING_RATE}
