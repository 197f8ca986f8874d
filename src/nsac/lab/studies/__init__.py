"""Studies: the paper's questions beside its main table, one file each."""

from nsac.lab.studies import cost, freezing, hyperparameters, lengths, regulariser
from nsac.lab.studies.base import Study

STUDIES: dict[str, Study] = {
    each.name: each for each in (m.STUDY for m in (regulariser, freezing, cost, hyperparameters, lengths))
}
"""By name, in the order of the paper."""
