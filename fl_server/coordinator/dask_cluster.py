"""A Dask cluster: one that is there already, or processes of our own on this machine."""

from __future__ import annotations

import logging
import queue
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import FedbedError, UsageError
from common.worker.children import TUNING
from common.worker.forking import INHERITED, shared
from common.worker.remote import unchanged

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 10.0
FIRST_WORKER_SECONDS = 60.0
LOOK_SECONDS = 2.0  # how often to look which workers there are while nothing happens

SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": "10GB",  # a model is no mistake
    "distributed.worker.profile.enabled": False,  # it looks at every thread all the time
}

log = logging.getLogger(__name__)


class Cluster:
    """Tasks on the workers of a cluster: a function by its name, everything else as bytes."""

    def __init__(self, client: Client, name: str, *, local: bool) -> None:
        self._client = client
        self.name = name
        self.local = local
        self._done: queue.SimpleQueue[Future[bytes]] = queue.SimpleQueue()
        self._lonely = False
        self._workers: dict[str, int] = {}
        self._looked = float("-inf")

    def workers(self) -> dict[str, int]:
        """The workers that are there, as of some seconds ago, with their threads."""
        if time.monotonic() < self._looked + LOOK_SECONDS:
            return self._workers
        found = self._client.scheduler_info()["workers"].items()
        self._workers = {str(address): int(one["nthreads"]) for address, one in found}
        self._looked = time.monotonic()
        if bool(found) == self._lonely:
            self._lonely = not found
            log.warning(
                "%s has %s", self.name, "no workers; waiting" if not found else "workers"
            )
        return self._workers

    def keep(self, data: bytes) -> Future[bytes]:
        """Bytes that many tasks need; each worker gets them once."""
        return self._client.submit(unchanged, data, pure=False)

    def start(
        self, function: Callable[..., bytes], *arguments: object, worker: str | None = None
    ) -> Future[bytes]:
        """A task, if possible on this worker; `next_done` gives it back."""
        task = self._client.submit(
            function,
            *arguments,
            workers=None if worker is None else [worker],
            allow_other_workers=worker is not None,
            pure=False,
        )
        task.add_done_callback(self._done.put)
        return task

    def next_done(self) -> Future[bytes] | None:
        """A task that has ended, or None after a while."""
        try:
            return self._done.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            return None

    def result(self, task: Future[bytes], what: str) -> bytes:
        """What a task gave; `what` says in an error what it was."""
        from distributed import KilledWorker

        try:
            return task.result()
        except KilledWorker as error:
            raise FedbedError(
                f"{what}: every Dask worker that computed it died; too little memory?"
            ) from error
        except Exception as error:
            raise FedbedError(
                f"{what}: {self.name} failed: {type(error).__name__}: {error}; "
                "start the same command again: nothing is lost"
            ) from error

    def forget(self, tasks: Sequence[Future[bytes]]) -> None:
        """Give up tasks."""
        if tasks:
            self._client.cancel(list(tasks), force=True)

    def listen(self, topic: str, receive: Callable[[str], None]) -> None:
        """Pass on what tasks report under a topic, from another thread."""
        self._client.subscribe_topic(topic, lambda event: receive(str(event[1])))

    def everywhere(self, function: Callable[..., None], *arguments: str) -> None:
        """Call a function in every worker at once, beside its tasks."""
        self._client.run(function, *arguments)


@contextmanager
def cluster_at(text: str) -> Iterator[Cluster]:
    """The cluster that `--dask` names, with at least one worker."""
    own = re.fullmatch(r"local:([1-9]\d{0,2})", text)
    if own is None and not re.fullmatch(r"(tcp|tls)://\S+:\d+", text):
        raise UsageError(f"--dask is {text!r}; expected such as tcp://HOST:8786 or local:4")
    with ExitStack() as stack:
        address = text
        if own is not None:
            address = stack.enter_context(_own_cluster(int(own[1])))
        else:
            stack.enter_context(_settings())
        client = stack.enter_context(_connected(address, text, own=own is not None))
        _await_workers(client, text)
        yield Cluster(client, f"the Dask cluster at {text}", local=own is not None)


@contextmanager
def _settings() -> Iterator[None]:
    try:
        import dask
        import distributed  # noqa: F401 - it must be there, too
    except ImportError as error:
        raise UsageError(
            "--dask needs Dask; install it: pip install 'fedbed[cluster]'"
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it writes on the screen
    with dask.config.set(SETTINGS):
        yield


@contextmanager
def _connected(address: str, text: str, *, own: bool) -> Iterator[Client]:
    import distributed

    try:
        client = distributed.Client(
            address, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=own
        )
    except (OSError, ValueError, TypeError) as error:
        raise FedbedError(
            f"cannot reach the Dask scheduler at {text}: {error}; "
            "start one with: dask scheduler"
        ) from error
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _forks(scratch: Path) -> Iterator[dict[str, str]]:
    """What workers need to share one fork server, which gets ready meanwhile."""
    if sys.platform != "linux":
        yield {}
        return
    path = scratch / "forks"
    with shared(path):
        yield {INHERITED: str(path)}


@contextmanager
def _own_cluster(processes: int) -> Iterator[str]:
    """The address of a cluster of our own; Ctrl-C in a terminal is not for its processes."""
    with (
        tempfile.TemporaryDirectory(prefix="fedbed-") as scratch,
        _forks(Path(scratch)) as forks,  # torch takes long to import, so this comes first
        _settings(),
    ):
        import distributed

        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            cluster = distributed.LocalCluster(
                n_workers=processes,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,
                local_directory=scratch,
                silence_logs=logging.CRITICAL,
                env={**TUNING, **forks},
            )
        finally:
            signal.signal(signal.SIGINT, before)
        with cluster:
            yield cluster.scheduler_address


def _await_workers(client: Client, text: str) -> None:
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
    except TimeoutError as error:
        raise FedbedError(
            f"no worker came to the Dask scheduler at {text} within "
            f"{FIRST_WORKER_SECONDS:.0f} s; start one: dask worker {text}"
        ) from error
