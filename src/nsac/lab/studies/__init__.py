"""Studies: the questions that the paper answers besides its main table, one file each."""

from nsac.lab.studies import cost, freezing, hyperparameters, lengths, regulariser
from nsac.lab.studies.base import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (regulariser.STUDY, freezing.STUDY, cost.STUDY, hyperparameters.STUDY, lengths.STUDY)
}
"""Studies by name, in the order of the paper."""
