import os
import signal
import threading
import time

import pytest

from nsac.training import Interrupted, TrainConfig, train
from nsac.training.interrupt import DeferredInterrupt
from support.training_problems import Line, Table, bits, same

SHORT = TrainConfig(max_steps=40, batch_size=16, validate_every=10, learning_rate=0.03)


def run(model=None, config=SHORT, data=None, **options):
    model = Line() if model is None else model
    result = train(model, Table() if data is None else data, Table(20, seed=1), config, **options)
    return model, result


def test_ctrl_c_takes_effect_at_the_end_of_the_step(tmp_path):
    class Pressed(Line):
        def loss(self, batch, generator):
            if self.seen == 16 * 5:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            return super().loss(batch, generator)

    with pytest.raises(Interrupted, match="Stopped at step 6 of 40"):
        run(Pressed(), checkpoint=tmp_path)
    assert same(bits(run(checkpoint=tmp_path)[0]), bits(run()[0]))


def test_the_previous_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    with DeferredInterrupt():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_takes_effect_immediately(tmp_path):
    class Impatient(Line):
        def validation(self, batch, generator):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            raise AssertionError("this must not be reached")

    with pytest.raises(Interrupted, match="Stopped at step 10 of 40"):
        run(Impatient(), checkpoint=tmp_path)
    assert same(bits(run(checkpoint=tmp_path)[0]), bits(run()[0]))


def test_a_run_outside_the_main_thread_gives_the_same_bits():
    found = []
    thread = threading.Thread(target=lambda: found.append(bits(run()[0])))
    thread.start()
    thread.join()
    assert same(found[0], bits(run()[0]))
