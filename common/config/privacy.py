"""What the coordinator may learn of single updates: `[privacy]`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from common.config.section import Section


class PrivacySection(Section, frozen=True, kw_only=True):
    """What the coordinator learns about the update of a single client."""

    secure: Annotated[
        bool,
        Meta(
            description="Secure aggregation: boards mask updates, so that the coordinator "
            "and the broker learn the sum of a round only; needs "
            'aggregation.arithmetic = "exact".'
        ),
    ] = False
    threshold: Annotated[
        float,
        Meta(
            gt=0.5,
            le=1,
            description="Share of a secured round's clients whose updates it needs: if more "
            "of them drop out after the exchange of keys, its sum is not opened.",
        ),
    ] = 0.6
