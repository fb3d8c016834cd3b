"""Numbers that a change of the house must not change: every model of the tables, fitted and predicted.

python tests/results.py made.npz     writes the table; python tests/results.py before.npz after.npz    compares two
"""

import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script from the project's root

import bayesgen as bg
from tests.models import cases, response_cases

POINTS = {"MLE": bg.MLE(), "MAP": bg.MAP()}


def numbers_of(fit, X, y, rules):
    """name -> array: parameters, evidence and answers of one fit."""
    found = {f"parameters/{name}": np.asarray(value) for name, value in fit.parameters.items()}
    if fit.log_evidence is not None:
        found["log evidence"] = np.asarray(fit.log_evidence)
    for name, rule in rules.items():
        answer = bg.predict(fit, X, rule=rule)
        if y is None:
            found[f"{name}/probabilities"] = answer.probabilities
            found[f"{name}/log marginal"] = answer.log_marginal
        else:
            found |= {f"{name}/mean": answer.mean, f"{name}/std": answer.std, f"{name}/density": answer.log_density(y)}
    return found


def table():
    """All numbers; a combination that is refused says so."""
    found = {}
    exact_rules = {"mean": bg.PlugIn("mean"), "mode": bg.PlugIn("mode"), "BMA": bg.BMA()}
    for title, all_cases in {"classes": cases.CASES, "open": cases.OPEN, "response": response_cases.CASES}.items():
        for name, case in all_cases.items():
            X, y = case.new if title == "response" else (case.new, None)
            for method_name, method in {"Exact": bg.Exact(), **POINTS}.items():
                rules = exact_rules if method_name == "Exact" else {"plug-in": bg.PlugIn()}
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        numbers = numbers_of(bg.fit(case.model, *case.data, method=method), X, y, rules)
                except bg.BayesgenError as error:
                    numbers = {f"refused by {type(error).__name__}": np.array(1.0)}
                found |= {f"{title}/{name}/{method_name}/{key}": value for key, value in numbers.items()}
    return found


def difference(first, second):
    """Largest difference relative to size, infinite where one has no number and the other has."""
    if first.shape != second.shape:
        return np.inf
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(first - second) / np.maximum(1.0, np.abs(second)))
    return float(np.max(np.nan_to_num(gap, nan=np.inf), initial=0.0))


def compare(before, after):
    """Print what differs, the largest first."""
    first, second = np.load(before), np.load(after)
    for name in sorted(set(first) ^ set(second)):
        print("in one table alone:", name)
    gaps = {name: difference(first[name], second[name]) for name in set(first) & set(second)}
    for name, gap in sorted(gaps.items(), key=lambda item: -item[1])[:20]:
        print(f"{gap:.1e}  {name}")
    print(f"{len(gaps)} numbers or arrays; largest difference {max(gaps.values()):.1e}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        compare(*sys.argv[1:])
    else:
        np.savez(sys.argv[1], **table())
