"""All contestants."""

from __future__ import annotations

from .base import Contestant, Stage
from .img2dataset_peer import Img2dataset
from .local import BareEngine, BareLoop, Vipsthumbnail
from .megaton import Megaton, MegatonVips, has_engines
from .queues import CeleryOneTask, CeleryPyvips, DramatiqPyvips, RqPyvips, RqSimplePyvips
from .thumbor_peer import Thumbor

#: In the order of the tables.
ALL: tuple[type[Contestant], ...] = (
    Megaton, MegatonVips, CeleryPyvips, CeleryOneTask, DramatiqPyvips, RqPyvips, RqSimplePyvips, Img2dataset,
    Thumbor, Vipsthumbnail, BareLoop, BareEngine,
)  # fmt: skip
#: Contestants of `--quick`.
QUICK: tuple[type[Contestant], ...] = (Megaton, MegatonVips, CeleryPyvips, BareLoop, BareEngine)
#: Contestants of `shipped`, unless others are named.
SHIPPED: tuple[type[Contestant], ...] = (Megaton, MegatonVips, CeleryPyvips, BareLoop)
#: Contestants that make several sizes of an image in one batch.
FOUR: tuple[type[Contestant], ...] = (Megaton, MegatonVips, CeleryPyvips, CeleryOneTask, BareLoop)


def contestants(stage: Stage, case: str) -> list[type[Contestant]]:
    """Contestants of a case in this run."""
    found = FOUR if case == "four" else tuple(one for one in ALL if one is not CeleryOneTask)
    settings = stage.settings
    if case == "shipped" and not settings.only:
        found = SHIPPED
    if settings.quick:
        found = tuple(one for one in found if one in QUICK)
    if settings.only:
        found = tuple(one for one in found if one.name in settings.only)
    if MegatonVips in found and not has_engines(stage):
        found = tuple(one for one in found if one is not MegatonVips)
    return list(found)


__all__ = ["ALL", "FOUR", "QUICK", "SHIPPED", "BareEngine", "Contestant", "Megaton", "Stage", "contestants"]
