"""Records in MLflow: one MLflow run per record, logged once."""

from collections.abc import Callable
from typing import Any

from nsac.lab.grid.store import Record

EXPERIMENT = "nsac-bench"


def mlflow_logger() -> Callable[[Record], bool]:
    """A function that logs a record to the server of MLFLOW_TRACKING_URI, or to MLflow's own default.

    It returns False for a record that is logged already, by the tag `nsac.record`.
    """
    try:
        import mlflow
    except ImportError:
        raise ImportError("Tracking needs MLflow. Install it with `pip install 'nsac[track]'`.") from None
    experiment = mlflow.set_experiment(EXPERIMENT).experiment_id

    def log(record: Record) -> bool:
        condition = f"tags.`nsac.record` = '{record.name}'"
        if mlflow.search_runs([experiment], condition, max_results=1, output_format="list"):
            return False
        with mlflow.start_run(experiment_id=experiment, run_name=record.name):
            mlflow.set_tags({"nsac.record": record.name, "nsac.commit": record.commit or ""})
            mlflow.log_params(_flat(record.config))
            numbers = {**record.metrics, **{f"seconds_{name}": v for name, v in record.seconds.items()}}
            numbers |= {"parameters": record.parameters, "peak_memory": record.peak_memory}
            mlflow.log_metrics({name: value for name, value in numbers.items() if value is not None})
        return True

    return log


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
