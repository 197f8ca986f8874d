import torch

from nsac.methods import METHODS, fit
from nsac.training import TrainConfig
from support.problems import sine, walk

SHORT = TrainConfig(max_steps=20, batch_size=32, validate_every=5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_learner_has_its_own_run(tmp_path):
    split = sine(300, seeded())
    ensemble = METHODS["de"](split.problem)
    seen = []
    results = fit(ensemble, split.train, split.validation, SHORT, checkpoint=tmp_path, report=seen.append)
    assert len(results) == 3 and len(seen) == 60
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["learner-0", "learner-1", "learner-2"]


def test_a_finished_fit_is_loaded_and_not_repeated(tmp_path):
    split = sine(300, seeded())
    predictions, steps = [], []
    for _ in range(2):
        method = METHODS["nsac"](split.problem)
        count = []
        fit(method, split.train, split.validation, SHORT, checkpoint=tmp_path, report=count.append)
        predictions.append(method.predict(split.test.columns).mean)
        steps.append(len(count))
    assert torch.equal(*predictions) and steps[1] == 0


def test_a_solved_method_has_no_runs():
    split = walk(generator=seeded())
    assert fit(METHODS["persistence"](split.problem), split.train, split.validation) == []
