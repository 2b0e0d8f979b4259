"""What the coordinator may learn of single updates: `[privacy]`."""

from __future__ import annotations

from typing import Annotated, Literal

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
    clip: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Differential privacy: boards shorten every client's move to this "
            "length, and all clients count the same; 0: as they are.",
        ),
    ] = 0.0
    noise: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="Noise of the sum of a round's moves, as a multiple of privacy.clip "
            "(Gaussian, from the system's entropy); needs the extra fedbed[accounting].",
        ),
    ] = 0.0
    delta: Annotated[
        float,
        Meta(gt=0, lt=1, description="Delta for which epsilon is reported."),
    ] = 1e-5
    sampling: Annotated[
        Literal["fixed", "poisson"],
        Meta(
            description='What epsilon assumes: "fixed" for a round\'s clients as they are '
            'drawn, "poisson" as papers do, which is smaller and not quite what happens.'
        ),
    ] = "fixed"
