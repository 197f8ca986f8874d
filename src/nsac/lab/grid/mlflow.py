"""Records in MLflow: one MLflow run per record, logged once."""

from typing import Any

from nsac.lab.grid.store import Record

EXPERIMENT = "nsac-bench"


class MLflow:
    """Logs records to the server that MLFLOW_TRACKING_URI names, or to MLflow's own default.

    A record that is logged already, by the tag `nsac.record`, is not logged again.
    """

    def __init__(self):
        try:
            import mlflow
        except ImportError:
            raise ImportError("Tracking needs MLflow. Install it with `pip install 'nsac[track]'`.") from None
        self.mlflow = mlflow
        self.experiment = mlflow.set_experiment(EXPERIMENT).experiment_id

    def __call__(self, record: Record) -> bool:
        """Log a record; False if it was logged before."""
        known = self.mlflow.search_runs(
            [self.experiment], f"tags.`nsac.record` = '{record.name}'", max_results=1, output_format="list"
        )
        if known:
            return False
        with self.mlflow.start_run(experiment_id=self.experiment, run_name=record.name):
            self.mlflow.set_tags({"nsac.record": record.name, "nsac.commit": record.commit or ""})
            self.mlflow.log_params(_flat(record.config))
            numbers = {**record.metrics, **{f"seconds_{name}": v for name, v in record.seconds.items()}}
            numbers |= {"parameters": record.parameters, "peak_memory": record.peak_memory}
            self.mlflow.log_metrics({name: value for name, value in numbers.items() if value is not None})
        return True


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
