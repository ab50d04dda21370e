"""All contestants."""

from __future__ import annotations

from .base import Contestant, Stage
from .img2dataset_peer import Img2dataset
from .local import BareEngine, BareLoop, BareOpenCV, BarePillow, BarePyvips, Vipsthumbnail
from .megaton import Megaton, MegatonVips, has_engines
from .queues import (
    CeleryOneTask,
    CeleryPyvips,
    CelerySystem,
    DramatiqPyvips,
    DramatiqSystem,
    RqPyvips,
    RqSimplePyvips,
)
from .thumbor_peer import Thumbor

#: In the order of the tables.
ALL: tuple[type[Contestant], ...] = (
    Megaton, MegatonVips, CeleryPyvips, CelerySystem, CeleryOneTask, DramatiqPyvips, DramatiqSystem, RqPyvips,
    RqSimplePyvips, Img2dataset, Thumbor, Vipsthumbnail, BareLoop, BarePyvips, BarePillow, BareOpenCV, BareEngine,
)  # fmt: skip
#: Contestants of `--quick`.
QUICK: tuple[type[Contestant], ...] = (Megaton, MegatonVips, CeleryPyvips, BareLoop, BareEngine)
#: Contestants that cannot do a case.
UNABLE: dict[str, tuple[type[Contestant], ...]] = {
    # It makes one size of an image in a run, or fetches for each; the others have one size in a task.
    "four": (
        DramatiqPyvips, DramatiqSystem, RqPyvips, RqSimplePyvips, Img2dataset, Thumbor, Vipsthumbnail, BareEngine,
    ),
    # Alpha is ignored or, for JPEG, wrong.
    "png": (BareOpenCV,),
    # img2dataset removes alpha.
    "to-png": (BareOpenCV, Img2dataset),
    # img2dataset cannot write AVIF; OpenCV and the bare engine cannot be asked for this quality and effort.
    "to-avif": (BareOpenCV, BareEngine, Img2dataset),
    # Thumbor answers a GIF with a GIF.
    "mixed": (BareOpenCV, Thumbor),
}  # fmt: skip
#: Contestants of some cases, unless others are named: the whole would take hours.
FEW: tuple[type[Contestant], ...] = (
    Megaton, MegatonVips, CeleryPyvips, CelerySystem, DramatiqPyvips, Thumbor, BareLoop, BarePyvips, BarePillow,
    BareEngine,
)  # fmt: skip
FEW_OF: dict[str, tuple[type[Contestant], ...]] = {
    "shipped": (Megaton, MegatonVips, CeleryPyvips, CelerySystem, BareLoop),
    "progressive": (Megaton, MegatonVips, CeleryPyvips, CelerySystem, BareLoop),
    **dict.fromkeys(("2k", "png", "to-png", "webp", "to-webp", "to-avif", "mixed"), FEW),
}


def able(case: str) -> tuple[type[Contestant], ...]:
    """Contestants that can do a case."""
    found = tuple(one for one in ALL if one not in UNABLE.get(case, ()))
    return found if case == "four" else tuple(one for one in found if one is not CeleryOneTask)


def contestants(stage: Stage, case: str) -> list[type[Contestant]]:
    """Contestants of a case in this run."""
    settings = stage.settings
    found = able(case)
    if settings.only:
        found = tuple(one for one in found if one.name in settings.only)
    else:
        found = tuple(one for one in found if one in FEW_OF.get(case, ALL))
    if settings.quick:
        found = tuple(one for one in found if one in QUICK or one.name in settings.only)
    if MegatonVips in found and not has_engines(stage):
        found = tuple(one for one in found if one is not MegatonVips)
    return list(found)


__all__ = ["ALL", "QUICK", "BareEngine", "Contestant", "Megaton", "Stage", "able", "contestants"]
