"""Studies: the paper's questions beside its main table, one file each."""

from nsac.bench.studies import cost, freezing, hyperparameters, lengths, regulariser
from nsac.bench.studies.base import Study

STUDIES: dict[str, Study] = {
    each.name: each for each in (m.STUDY for m in (regulariser, freezing, cost, hyperparameters, lengths))
}
"""By name, in the order of the paper."""
