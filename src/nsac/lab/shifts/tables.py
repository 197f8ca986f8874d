"""Tables of the shift suite, as frames: detection by kind of shift, all scores, and the effect of novelty."""
# pyright: reportAttributeAccessIssue=false, reportReturnType=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# (the type checker takes a group of a frame for a number)

import pandas as pd

OURS, PLAIN = "nsac", "nsac, likelihood"
"""The default model, and the same model without separation term."""

SCORES = {
    "auroc": "AUROC",
    "aupr": "AUPR",
    "fpr95": "FPR95",
    "auroc_total": "AUROC, total",
    "error_correlation": "rank correlation",
    "ause": "AUSE",
    "nll": "NLL",
    "coverage_90": "90 % PI coverage",
}
"""Scores of `score_table`, and their headings."""


def detection_table(records: pd.DataFrame, score: str = "auroc") -> pd.DataFrame:
    """Methods by kinds of shift: mean over the shifts of a kind, then over seeds; `mean` and `lowest` over kinds."""
    each = records.groupby(["method", "kind", "seed"])[score].mean()
    table = each.groupby(["method", "kind"]).mean().unstack("kind")
    complete = table.dropna()  # a method that does not apply to every kind has no mean
    return table.assign(mean=complete.mean(axis=1), lowest=complete.min(axis=1)).sort_values("mean", ascending=False)


def score_table(records: pd.DataFrame) -> pd.DataFrame:
    """Methods by scores: mean over the shifts of a kind, then over seeds, then over kinds."""
    means = {title: detection_table(records, score)["mean"] for score, title in SCORES.items()}
    return pd.DataFrame(means).dropna(subset=["AUROC"]).sort_values("AUROC", ascending=False)


def has_cost(records: pd.DataFrame) -> bool:
    """Whether there are records of both methods that `cost_table` compares."""
    return {OURS, PLAIN} <= set(records["method"])


def cost_table(records: pd.DataFrame) -> pd.DataFrame:
    """Effect of novelty: `nsac` compared with the same model without separation term.

    By scene, of in-distribution rows: ratios of RMSE and CRPS, and squared error divided by variance. By kind of shift:
    coverage of the 90 % prediction intervals of both, and the ratio of their shortfalls from 90 %.
    """
    inside = records.dropna(subset=["rmse_inside"]).drop_duplicates(["method", "scene", "seed"])
    inside = inside.assign(ratio=inside["rmse_inside"] ** 2 / inside["variance_inside"])
    paired = inside.pivot(
        index=["scene", "seed"], columns="method", values=["rmse_inside", "crps_inside", "ratio"]
    ).dropna(subset=[("ratio", OURS), ("ratio", PLAIN)])
    by_scene = {
        "RMSE ratio": paired["rmse_inside"][OURS] / paired["rmse_inside"][PLAIN],
        "CRPS ratio": paired["crps_inside"][OURS] / paired["crps_inside"][PLAIN],
        f"squared error / variance, {OURS}": paired["ratio"][OURS],
        f"squared error / variance, {PLAIN}": paired["ratio"][PLAIN],
    }
    covered = records.pivot(index=["kind", "scene", "shift", "seed"], columns="method", values="coverage_90")
    covered = covered[[OURS, PLAIN]].dropna()
    shortfall = (0.9 - covered).clip(lower=0).groupby("kind").mean()
    by_kind = {
        f"90 % PI coverage, {OURS}": covered[OURS].groupby("kind").mean(),
        f"90 % PI coverage, {PLAIN}": covered[PLAIN].groupby("kind").mean(),
        "shortfall ratio": shortfall[OURS] / shortfall[PLAIN],
    }
    return pd.concat([pd.DataFrame(by_scene).groupby("scene").mean(), pd.DataFrame(by_kind)])
