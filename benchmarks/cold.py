"""NUTS on iris in fresh processes: what a first fit costs, compilation counted, imports not."""

import functools

from . import gda, sampling
from .fresh import call
from .measure import REPEATS, Higher, Row, rounds
from .peers import plain_numpyro

PEERS = {
    "GATHERED": ("plain NumPyro, obs= with scale_tril=L[y]", None),
    "BY_CLASS": ("plain NumPyro, one normal a class by hand", 1.5),
}


def measures(quick):
    """Ours against both forms of plain NumPyro; `quick` takes the faster one."""
    for form in ["BY_CLASS"] if quick else PEERS:
        yield functools.partial(_against, form, 1 if quick else REPEATS)


def _against(form, repeats):
    name, bound = PEERS[form]
    pairs = rounds(lambda seed: (call("cold.ours", seed), call("cold.plain", form, seed)), repeats)
    work = "smallest bulk ESS/s, full GDA, iris, N=150, cold (fresh process, compilation counted)"
    return Row(work, Higher(bound), *zip(*pairs, strict=True), "ESS/s", name, note="then 3x" if bound else "")


def ours(seed):
    """The rate of the first fit of this process."""
    return sampling.ours(gda.iris(), int(seed)).rate


def plain(form, seed):
    """The rate of the first run of plain NumPyro in this process."""
    return getattr(plain_numpyro, form).runner(gda.iris())(int(seed)).rate
