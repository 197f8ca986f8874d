"""Kill processes that replace a model at random moments, with a reader beside them; every load gives a whole model.

Writers are forked from a process that has imported everything, so that kills hit the writing and not the imports.

    PYTHONPATH=tests python -m support.kill_and_load FOLDER KILLS SEED exchange|rename
"""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

import nsac._io
from nsac.estimators.files import load, read_model, write_model
from support.table_problems import numbers, quick


def fork(work) -> int:
    """Call `work` for ever in a child process; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        torch.set_num_threads(1)
        while True:
            work()
    except BaseException as err:
        print(f"process failed: {type(err).__name__}: {err}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def main(folder: Path, kills: int, seed: int, mode: str) -> None:
    if mode == "rename":
        nsac._io._exchange = lambda *_: False
    draw, model = random.Random(seed), folder / "model"
    archives = []
    for k in (1, 2):
        quick(method="ridge", random_state=k).fit(*numbers(seed=k)).save(folder / f"source-{k}")
        archives.append(read_model(folder / f"source-{k}"))
    seeds = [config["seeds"] for config, _ in archives]

    def write() -> None:
        for config, tensors in archives:
            write_model(model, config, tensors)

    def read() -> None:
        assert load(model).seeds_ in seeds
        os.write(counter, b".")

    write()
    reports, counter = os.pipe()
    os.set_blocking(reports, False)
    reader, loads, writing = fork(read), 0, 0
    try:
        for _ in range(kills):
            writers = [fork(write), fork(write)]  # two, who must take turns
            time.sleep(0.01 + 0.05 * draw.random())
            for writer in writers:
                assert os.waitpid(writer, os.WNOHANG) == (0, 0), "a writer failed by itself"
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
            writing += any(path.name.endswith((".new", ".old")) for path in folder.iterdir())
            assert load(model).seeds_ in seeds, "a load after a kill"
            assert os.waitpid(reader, os.WNOHANG) == (0, 0), "the reader failed"
            with contextlib.suppress(BlockingIOError):  # none since the last kill
                loads += len(os.read(reports, 1 << 20))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(reader, signal.SIGKILL)
    write()
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["model", "source-1", "source-2"], left
    print(f"{kills} kills of two writers, {writing} while writing; {loads} + {kills} loads, none failed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
