"""The whole testbed on this machine: a lab of equal boards, of a fleet's, or with faults."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import closing

from common.program.signals import ends_with, how_to_go_on, stopped_by_signals
from common.wire.paho_link import PahoLink
from fl_server.coordinator.history import both
from fl_server.coordinator.service import Coordinator
from fl_server.fleet.kinds import Fleet
from fl_server.lab.fault_script import Script
from fl_server.lab.faulty_lab import FaultyLab
from fl_server.lab.lab import Lab, LabBoard, check_boards, keep_only_logs
from fl_server.lab.lab_fleet import LabFleet
from fl_server.lab.relay import Relay
from fl_server.lab.restarts import restarting_boards
from fl_server.lab.sites import SitesLab
from fl_server.launch.work import RunOptions, at_work, conclude, shown
from fl_server.run.find import resume_command
from fl_server.run.provenance import note_start
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.displays import Lines
from fl_server.watch.recovery import recoveries
from fl_server.watch.screen import recovery_table

LAB = "lab"  # in the folder of a run


def lab(
    options: RunOptions, store: RunStore, boards: Mapping[str, LabBoard], *, sites: int = 0
) -> bool:
    """The whole testbed here, perhaps with sites; False if it was interrupted."""
    make = functools.partial(SitesLab, sites=sites) if sites else Lab
    with at_work(options, store) as work:
        check_boards(store.folder / LAB, boards)
        with make(store.folder / LAB, boards, data=options.data, code=store.code) as testbed:
            finished = _coordinate(testbed, options, store, work.observe)
        if finished:
            keep_only_logs(store.folder / LAB)
    return conclude(options, work, finished=finished)


def fleet_lab(options: RunOptions, store: RunStore, fleet: Fleet) -> bool:
    """The same with boards and networks as in a fleet file."""
    shaped = LabFleet(fleet, store.experiment())
    folder, boards, data = store.folder / LAB, shaped.boards, options.data
    with at_work(options, store) as work:
        check_boards(folder, boards)
        with (
            Lab(folder, boards, on_relay=shaped.shape, data=data, code=store.code) as testbed,
            closing(shaped),
        ):
            observe = both(shaped.observe, work.observe)
            finished = _coordinate(testbed, options, store, observe)
        if finished:
            keep_only_logs(folder)
    conclude(options, work, finished=finished)
    if text := shaped.too_slow():
        work.display.write(text)
    return finished


def run_in(testbed: Lab, options: RunOptions, store: RunStore) -> bool:
    """A run on the boards of a lab that stays; False if it was interrupted."""
    with at_work(options, store) as work:
        finished = _coordinate(testbed, options, store, work.observe)
    return conclude(options, work, finished=finished)


def _coordinate(
    testbed: Lab, options: RunOptions, store: RunStore, observe: facts.Observer
) -> bool:
    testbed.make_shards(store.experiment())
    coordinator = Coordinator(
        store,
        PahoLink(testbed.address),
        federation="fl",
        observe=observe,
        record=options.start_record,
    )
    with (
        shown(options, testbed.address, "fl", observe),
        restarting_boards(testbed, coordinator.fail),
        stopped_by_signals(coordinator.stop),
    ):
        return coordinator.run()


def faulty_lab(
    options: RunOptions, store: RunStore, script: Script, boards: Mapping[str, LabBoard]
) -> bool:
    """The whole testbed here, while a script's faults happen to it; False if interrupted."""
    folder = store.folder / LAB
    display = Lines(store.folder.name)
    data, code = options.data, store.code
    again = resume_command(store.folder)
    note_start(store.folder, options.start)
    with (
        ends_with(again),
        Lab(folder, boards, on_relay=_as_it_is, data=data, code=code) as testbed,
    ):
        troubled = FaultyLab(store, testbed, script, display.write)
        with (
            shown(options, testbed.address, "fl", display.observe),
            stopped_by_signals(troubled.stop),
        ):
            finished = troubled.run()
    if finished:
        keep_only_logs(folder)
    display.show(recovery_table(recoveries(troubled.recovered())))
    if not finished:
        display.write(how_to_go_on(again))
    return finished


def _as_it_is(_board: str, _relay: Relay) -> None:
    """A good link, until a fault."""
