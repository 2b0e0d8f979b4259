"""From what a person asked for to a run: over a broker, in a lab, or in this process."""

from __future__ import annotations

import functools
import shutil

from common.access.address import Address
from common.config import Experiment
from common.data.dataset import find_data
from common.data.shards import ShardSet
from common.errors import UsageError
from common.experiment.resolve import participants_of
from common.program.signals import stopped_by_signals
from common.wire.paho_link import PahoLink
from fl_server.coordinator.local_clients import LocalClients
from fl_server.coordinator.sender import publish_end_again
from fl_server.coordinator.service import Coordinator
from fl_server.coordinator.simulate import Simulation, require_no_order
from fl_server.coordinator.virtual import VirtualSimulation
from fl_server.launch.labs import faulty_lab as faulty_lab
from fl_server.launch.labs import fleet_lab as fleet_lab
from fl_server.launch.labs import lab as lab
from fl_server.launch.labs import run_in as run_in
from fl_server.launch.work import RunOptions as RunOptions
from fl_server.launch.work import at_work, conclude, shown, shown_here
from fl_server.run.moments import FOLDER
from fl_server.run.store import RunStore
from fl_server.watch.displays import Lines


def run(
    options: RunOptions,
    store: RunStore,
    address: Address,
    federation: str,
) -> bool:
    """Coordinate a run over a broker; False if it was interrupted."""
    if store.finished:  # perhaps killed before all boards had received it
        publish_end_again(store, PahoLink(address), federation)
        Lines(store.folder.name).write(
            f"this run is finished; its results are in {store.folder}"
        )
        return True
    with at_work(options, store) as work:
        coordinator = Coordinator(
            store,
            PahoLink(address),
            federation=federation,
            observe=work.observe,
            record=options.start_record,
        )
        with (
            shown(options, address, federation, work.observe),
            stopped_by_signals(coordinator.stop),
        ):
            finished = coordinator.run()
    return conclude(options, work, finished=finished)


def require_data(options: RunOptions, experiment: Experiment) -> None:
    """Look for the dataset before a run folder is made, unless its shards are all there."""
    if options.fleet is None:
        require_no_order(experiment)
    if experiment.data.partition == "local":
        require_local(options, experiment)
    elif not ShardSet(options.shards, experiment).has(participants_of(experiment)):
        find_data(experiment.data)


def require_local(options: RunOptions, experiment: Experiment) -> None:
    """Refuse a lab or a simulation that would not find the data of its clients."""
    local = experiment.data.partition == "local"
    if local and options.data is None:
        raise UsageError(
            "data.partition is 'local': boards have the data; here, say where it is by "
            "--data FOLDER"
        )
    if not local and options.data is not None:
        raise UsageError(
            f"--data is {options.data}, but data.partition is {experiment.data.partition!r}; "
            "expected 'local'"
        )


def simulate(options: RunOptions, store: RunStore, clients: LocalClients) -> bool:
    """The run on this machine, without a broker; of a fleet, in virtual time."""
    fleet = options.fleet
    make = Simulation if fleet is None else functools.partial(VirtualSimulation, fleet=fleet)
    with at_work(options, store) as work, shown_here(options, store, work):
        finished = make(
            store,
            clients=clients,
            shards=options.shards,
            observe=work.observe,
            record=options.start_record,
            data=options.data,
        ).run()
        if finished:
            for name in ("clients", FOLDER):
                shutil.rmtree(store.folder / name, ignore_errors=True)
    return conclude(options, work, finished=finished)
