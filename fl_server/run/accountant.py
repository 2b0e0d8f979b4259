"""How much privacy rounds have cost: epsilon, by the accountant of `dp-accounting`.

fixed    what happens: so many of the clients are drawn in every round, without replacement.
         Neighbours differ in the data of one client, so a round's sum differs by 2 x clip.
poisson  what papers report: every client is in a round by a chance of its own. Neighbours
         differ in whether one client is there at all, so the sum differs by clip.

Both are Renyi accounting with integer orders, an upper bound.
"""

from __future__ import annotations

import functools

from fl_server.run.noise import Noise

ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512, 1024)


def epsilon(noise: Noise, rounds: int) -> float | None:
    """What so many rounds have cost; None without noise, 0 before the first round."""
    if not noise.noise:
        return None
    return _epsilon(noise, rounds) if rounds else 0.0


@functools.lru_cache(maxsize=4096)
def _epsilon(noise: Noise, rounds: int) -> float:
    import dp_accounting  # an extra, and it takes seconds
    from dp_accounting import rdp

    poisson = noise.sampling == "poisson"
    relations = dp_accounting.NeighboringRelation
    relation = relations.ADD_OR_REMOVE_ONE if poisson else relations.REPLACE_ONE
    one = dp_accounting.GaussianDpEvent(noise.noise if poisson else noise.noise / 2)
    event: dp_accounting.DpEvent = one
    if noise.expected < noise.population:
        rate = noise.expected / noise.population
        event = (
            dp_accounting.PoissonSampledDpEvent(rate, one)
            if poisson
            else dp_accounting.SampledWithoutReplacementDpEvent(
                noise.population, noise.expected, one
            )
        )
    accountant = rdp.RdpAccountant(orders=ORDERS, neighboring_relation=relation)
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(noise.delta))
