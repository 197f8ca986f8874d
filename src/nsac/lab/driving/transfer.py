"""Udacity: a policy trained on the lake track, evaluated on the lake and on the mountain track."""

import time

import torch
from torch import Tensor

from nsac.lab.datasets.udacity import Drive, load_drive
from nsac.lab.driving.policy import DrivingPolicy
from nsac.lab.driving.records import DriveRecord, make_record
from nsac.lab.tasks.udacity import Frames, read_frames, road_task
from nsac.uncertainty import Scores, ood_auroc

METRICS = ("mse", "zero_mse", "nll", "crps", "coverage_90", "width_90")
"""Scores that are recorded of each track; `zero_mse` is that of predicting zero."""
BATCH_ROWS = 256
"""Rows that are predicted at a time."""


def compare_tracks(policy: DrivingPolicy, lake: Drive | None = None, mountain: Drive | None = None) -> DriveRecord:
    """Errors of a policy of the lake on both tracks, and how well its uncertainty separates them."""
    start = time.process_time()
    known = road_task(policy.config.seed, lake).test
    assert isinstance(known, Frames)
    drive = mountain or load_drive("mountain")
    steering = torch.tensor(drive.steering, dtype=torch.float32)
    shifted = Frames(read_frames(drive), steering, torch.arange(len(steering)), known.scale)
    inside_scores, inside_aleatoric, inside = evaluate(policy, known)
    outside_scores, outside_aleatoric, outside = evaluate(policy, shifted)
    measures: dict[str, float | None] = {f"lake_{name}": inside_scores[name] for name in METRICS}
    measures |= {f"mountain_{name}": outside_scores[name] for name in METRICS}
    ratio = outside.mean() / inside.mean().clamp(min=1e-12)
    measures |= {
        "lake_epistemic": inside.mean().item(),
        "mountain_epistemic": outside.mean().item(),
        "epistemic_ratio": ratio.item() if inside.any() else None,
        "auroc_epistemic": ood_auroc(inside, outside),
        "auroc_total": ood_auroc(inside + inside_aleatoric, outside + outside_aleatoric),
    }
    rows = {"lake": len(known), "mountain": len(shifted)}
    return make_record(policy.config, "mountain", rows, measures, {}, time.process_time() - start)


def evaluate(policy: DrivingPolicy, frames: Frames) -> tuple[dict[str, float], Tensor, Tensor]:
    """Scores of a policy on the frames of a track, and aleatoric and epistemic variances of its steering, (rows,)."""
    scores, aleatoric, epistemic = Scores(), [], []
    for rows in torch.arange(len(frames)).split(BATCH_ROWS):
        batch = frames.batch(rows)
        p = policy.predict(batch["x"])
        scores.add(p, batch["y"] * frames.scale)
        aleatoric.append(p.aleatoric[:, 0])
        epistemic.append(p.epistemic[:, 0])
    zero = frames.steering[frames.rows].square().mean().item()
    return {**scores.table(), "zero_mse": zero}, torch.cat(aleatoric), torch.cat(epistemic)
