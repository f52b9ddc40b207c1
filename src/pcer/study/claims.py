"""The claims ledger: every empirical claim of the paper, judged."""

from __future__ import annotations

from pcer.study import (
    about_acs,
    about_adult_race,
    about_adult_sex,
    about_agreement,
    about_attack,
    about_bios,
    about_compas,
    about_compas_strong,
    about_floors,
    about_whole,
)

CLAIMS = (
    *about_whole.CLAIMS,
    *about_adult_race.CLAIMS,
    *about_adult_sex.CLAIMS,
    *about_compas.CLAIMS,
    *about_compas_strong.CLAIMS,
    *about_floors.CLAIMS,
    *about_acs.CLAIMS,
    *about_bios.CLAIMS,
    *about_attack.CLAIMS,
    *about_agreement.CLAIMS,
)
