"""How much of the package the simplest use enters: distinct functions and files of its second call.

python tests/test_functions_entered.py    prints the counts, and the functions by file
"""

import collections
import pathlib
import sys

import numpy as np
import pytest

import bayesgen as bg

ROOT = pathlib.Path(bg.__file__).parent
# the most functions and files that each may enter
BOUNDS = {"fit": (240, 36), "predict": (99, 28)}


def entered(call):
    """File -> names of its functions that run in a call, files relative to the package."""
    found = collections.defaultdict(set)

    def profile(frame, event, _):
        path = pathlib.Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found[str(path.relative_to(ROOT))].add(frame.f_code.co_qualname)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return dict(found)


def simplest_use():
    """Verb -> functions entered by its second call on 60 rows of 3 columns, for the exact posterior and its average."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    X = rng.normal(size=(60, 3)) + y[:, None]
    fit = bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())
    bg.predict(fit, X, rule=bg.BMA())
    return {
        "fit": entered(lambda: bg.fit(bg.GaussianDiscriminant(), X, y, method=bg.Exact())),
        "predict": entered(lambda: bg.predict(fit, X, rule=bg.BMA())),
    }


@pytest.fixture(scope="module")
def functions():
    return simplest_use()


@pytest.mark.parametrize("verb", BOUNDS)
def test_the_simplest_use_enters_few_functions_in_few_files(functions, verb):
    most_functions, most_files = BOUNDS[verb]
    assert 10 < sum(map(len, functions[verb].values())) <= most_functions
    assert 5 < len(functions[verb]) <= most_files


def test_the_profiler_sees_what_is_called():
    assert entered(lambda: bg.BetaBernoulli(2, 3).mean())["families/counts.py"] >= {"BetaBernoulli.mean"}
    assert entered(lambda: None) == {}


if __name__ == "__main__":
    for verb, files in simplest_use().items():
        print(f"{verb}: {sum(map(len, files.values()))} functions in {len(files)} files")
        for file, names in sorted(files.items()):
            print(f"  {file}: {', '.join(sorted(names))}")
