"""Where JAX runs: what is asked for, what is chosen by size, what is recorded, and that it is honoured."""

import os
import subprocess
import sys
import textwrap

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.errors import DataError
from bayesgen.runtime import devices

X = np.random.default_rng(0).normal(size=(40, 2)) + 3.0 * (np.arange(40)[:, None] % 2)
Y = np.arange(40) % 2


def heights(n):
    p = numpyro.sample("p", dist.Beta(1, 1))
    mean = numpyro.sample("mean", dist.Normal(0, 20).expand([2]).to_event(1))
    with numpyro.plate("people", n):
        y = numpyro.sample("y", dist.Bernoulli(p))
        numpyro.sample("x", dist.Normal(mean[y], 7.0))


OWN = bg.GenerativeProgram(heights, classes=2)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_closed_forms_and_small_searches_stay_on_the_processor(device):
    for model, rows, method in (
        (bg.NaiveBayes(), X, bg.Exact()),
        (bg.NaiveBayes(), X, bg.MLE()),
        (OWN, {"x": X[:, 0]}, bg.MAP(num_starts=1)),
    ):
        fit = bg.fit(model, rows, Y, method=method, device=device)
        assert fit.attributes["device"] == "cpu"
        assert bg.predict(fit, rows, rule=bg.PlugIn(), device=device).device == "cpu"


def test_a_device_that_jax_has_not_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(devices, "has", lambda name: name == "cpu")
    fit = bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact())
    for work in (
        lambda: bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact(), device="gpu"),
        lambda: bg.predict(fit, X, rule=bg.BMA(), device="gpu"),
    ):
        with pytest.raises(DataError, match=r"jax\[cuda12\].*device='cpu'"):
            work()
    with pytest.raises(DataError, match="None, 'cpu' or 'gpu', got 'tpu'"):
        bg.fit(bg.NaiveBayes(), X, Y, method=bg.Exact(), device="tpu")


def test_the_choice_is_by_size_and_nothing_is_left_behind(monkeypatch):
    monkeypatch.setattr(devices, "has", lambda name: True)
    monkeypatch.setattr(devices, "find", lambda name: jax.devices()[0])

    def chosen(asked, work):
        with devices.requested(asked) as request:
            with devices.placed(work):
                pass
            return request.used

    assert [chosen(None, work) for work in (0, 1e5, 1e8)] == ["cpu", "cpu", "gpu"]
    assert chosen("gpu", 0) == "gpu"
    assert chosen("cpu", 1e12) == "cpu"
    assert devices.used() == "cpu"
    assert jax.config.jax_default_device is None


def test_a_request_takes_in_all_that_is_placed_within_it(monkeypatch):
    monkeypatch.setattr(devices, "has", lambda name: True)
    monkeypatch.setattr(devices, "find", lambda name: jax.devices()[0])
    with devices.requested(None):
        for work in (1e9, 1.0):
            with devices.placed(work):
                pass
        assert devices.used() == "gpu"


def numbers(*more_methods):
    """Answers and evidences of fits of the same seed, with all their bits."""
    model, rng = bg.GaussianDiscriminant("tied"), np.random.default_rng(1)
    points = [bg.fit(model, X, Y, method=method, seed=5) for method in (bg.MLE(), bg.MAP(), bg.Exact())]
    answers = [bg.predict(fit, X[:3], rule=bg.PlugIn()) for fit in points]
    averaged = [points[-1], *(bg.fit(model, X, Y, method=method, seed=5, progress=False) for method in more_methods)]
    answers += [bg.predict(fit, X[:3], rule=rule) for fit in averaged for rule in (bg.BMA(), bg.ConditionalAverage(50))]
    batch = bg.fit_many(model, X, Y, weights=rng.integers(1, 4, (7, 40)), method=bg.Exact())
    logs = [batch.log_evidence, *(answer.log_probabilities for answer in answers)]
    return " ".join(float(value).hex() for values in logs for value in np.ravel(values))


TWO_DEVICES = """
    import jax, numpy as np
    import bayesgen as bg
    from bayesgen.runtime import devices
    from bayesgen.program import joint, reductions
    from bayesgen.solvers import sampler
    sys.path.insert(0, "tests/runtime")
    from test_devices import OWN, X, Y, numbers

    print(numbers())

    # the second of two processors plays the GPU
    devices.has = lambda name: True
    devices.find = lambda name: jax.devices()[name == "gpu"]
    seen = []

    def watched(function):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            seen.extend({d.id for leaf in jax.tree.leaves(result) for d in leaf.devices()})
            assert all(leaf.dtype != np.float32 for leaf in jax.tree.leaves(result))
            return result
        return call

    reductions._reduce._levels = [(most, watched(compiled)) for most, compiled in reductions._reduce._levels]
    sampler.advance, joint.log_joint = map(watched, (sampler.advance, joint.log_joint))
    from bayesgen.solvers import quasi_newton
    quasi_newton._compiled_for_few = watched(quasi_newton._compiled_for_few)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **about: compiled.append(event) if "backend_compile" in event else None)
    data, answers = {"x": X[:, 0]}, {}
    for device in ("gpu", "cpu", None, "gpu", "cpu"):
        seen.clear(), compiled.clear()
        fit = bg.fit(OWN, data, Y, method=bg.NUTS(num_warmup=50, num_samples=50), progress=False, device=device)
        rules = (bg.BMA(), bg.PlugIn())
        found = [bg.predict(fit, data, rule=rule, device=device) for rule in rules]
        expected = "gpu" if device == "gpu" else "cpu"
        assert set(seen) == {int(device == "gpu")}, (device, set(seen))
        assert fit.attributes["device"] == expected
        assert {one.device for one in found} == {expected}
        answers.setdefault(device, []).append((compiled[:], found[0].probabilities))
    assert answers["gpu"][0][0] and answers["cpu"][0][0]
    assert not (answers[None][0][0] or answers["gpu"][1][0] or answers["cpu"][1][0]), "compiled again"
    for each in answers.values():
        for _, probabilities in each:
            np.testing.assert_allclose(probabilities, answers["cpu"][0][1], rtol=1e-9)
    # what is large goes there by itself
    devices.GPU_WORK = 100
    assert bg.predict(fit, data, rule=bg.BMA()).device == "gpu"
    print("honoured")
"""


def test_placement_is_honoured_and_compiled_once_for_each_device():
    """With two processors for JAX, the second in the place of a GPU. In a process of its own: JAX counts once."""
    code = "import sys, os, warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(TWO_DEVICES)
    two = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    flags = {"XLA_FLAGS": two.strip(), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | flags, capture_output=True, text=True)
    assert done.stdout.strip().endswith("honoured"), done.stderr
    assert done.stdout.startswith(numbers()), "numbers depend on the process or its devices"


@pytest.mark.slow
def test_draws_do_not_depend_on_the_process_or_its_devices():
    outputs = []
    for count in (1, 1, 3):
        code = "import sys; sys.path.insert(0, 'tests/runtime')\nfrom test_devices import bg, numbers\n"
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
        done = subprocess.run(
            [sys.executable, "-c", code + "print(numbers(bg.NUTS(60, 60)))"],
            env=os.environ | {"XLA_FLAGS": flags.strip()},
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] == outputs[2] and len(outputs[0]) > 99
