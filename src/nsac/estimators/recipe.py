"""How methods other than NSAC are trained on tables: steps, and weight decays to search."""

from typing import Any

WEIGHT_DECAYS = (0.1, 0.17, 0.3, 0.5, 0.8, 1.25, 2.0, 3.2, 5.0, 8.0)
"""Weight decays that are searched, for 1000 rows; they fall with the square root of the number of rows."""
DEFAULT_WEIGHT_DECAY = 2.0  # weight decay, for 1000 rows, of tables that are too small for a search
MIN_SEARCH_ROWS = 100  # rows from which on the weight decay is searched
LARGE_TABLE_ROWS = 3000  # rows from which on every second weight decay is searched, and batches are larger


def mixture_training(rows: int) -> dict[str, Any]:
    """Fields of `TrainConfig` for this number of training rows."""
    steps = int(min(4 * rows, 450 * (rows / 1000) ** 0.55))
    batch_size = min(128 if rows < LARGE_TABLE_ROWS else 256, rows)
    return {"max_steps": steps, "validate_every": steps, "batch_size": batch_size, "learning_rate": 6e-3}


def weight_decay_candidates(rows: int, train_rows: int) -> list[dict[str, Any]]:
    """Weight decays to search, ascending, as fields of `TrainConfig`."""
    decays = WEIGHT_DECAYS[:: 2 if rows > LARGE_TABLE_ROWS else 1]
    if rows < MIN_SEARCH_ROWS:
        decays = (DEFAULT_WEIGHT_DECAY,)
    return [{"weight_decay": decay * (1000 / train_rows) ** 0.5} for decay in decays]
