"""python -m common.worker: a training process that imports torch by itself."""

from common.worker.training_process import work

if __name__ == "__main__":
    work()
