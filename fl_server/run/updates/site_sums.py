"""Whose update a blob is, and the sums of several clients that sites send as one."""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import ProtocolError, StrayUpdateError
from common.privacy.exact import Scale
from common.privacy.site_sums import as_received
from common.wire.messages import Job
from common.wire.tensors import SumMeta, decode_meta, decode_tensors, is_sum
from fl_server.run.checks import Checks
from fl_server.run.updates.open_updates import DecodedSum


def check_job(blob: bytes, expected: tuple[str, int, int]) -> None:
    """StrayUpdateError if a blob is not of this run, round and client."""
    try:
        job = decode_meta(blob, Job)
    except ProtocolError as error:
        raise StrayUpdateError(str(error)) from error
    if (job.run, job.round, job.client) != expected:
        raise StrayUpdateError("the update belongs to another client, round or run")


def members_of(blob: bytes) -> tuple[int, ...]:
    """Whose updates a blob is the sum of; none if it is one client's own, or unusable."""
    try:
        members = decode_meta(blob, SumMeta).members if is_sum(blob) else ()
    except ProtocolError:
        return ()
    return tuple(member.client for member in members)


@dataclass(frozen=True, slots=True)
class SiteSums:
    """Reads sums of several clients, if the experiment can use them."""

    checks: Checks
    scale: Scale | None
    needs_each: bool

    def decode(self, blob: bytes) -> DecodedSum:
        """A sum that its members can have; ProtocolError if it cannot be used."""
        if self.scale is None or self.needs_each:
            raise ProtocolError(
                "the sum of several clients, which this experiment cannot use: sites need "
                "aggregation.arithmetic = 'exact' and an algorithm that only needs means"
            )
        arrays, meta = decode_tensors(blob, SumMeta)
        self.checks.check_sum(meta)
        weights = [member.weights for member in meta.members]
        return as_received(self.scale, arrays, self.checks.expected, weights), meta
