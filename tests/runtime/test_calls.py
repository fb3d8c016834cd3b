"""Calls by users: short tracebacks, messages that list the choices, and one line on standard error of long work."""

import re
import sys
import threading
import time
import traceback

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayesgen as bg
from bayesgen.runtime import at_work, bar, progress, public

X, Y = np.random.default_rng(0).normal(size=(12, 2)), list("ab") * 6
MODEL, NEW = bg.NaiveBayes(), X[:3]


def fitted():
    return bg.fit(MODEL, X, Y, method=bg.Exact())


def misspelt(n):
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(mean, 1))  # noqa: F821


def misshapen(n):
    with numpyro.plate("rows", n):
        numpyro.sample("x", dist.Normal(jax.numpy.zeros(4), 1))


def without_plate(n):
    numpyro.sample("x", dist.Normal(0, 1))


# the ten usual mistakes: what is called, and what the last line of its traceback says
MISTAKES = {
    "no method": (lambda: bg.fit(MODEL, X, Y), "method= is missing"),
    "no labels": (lambda: bg.fit(MODEL, X, method=bg.Exact()), "y is missing"),
    "too few labels": (lambda: bg.fit(MODEL, X, Y[1:], method=bg.Exact()), "12 rows and y has 11"),
    "an infinite cell": (lambda: bg.fit(MODEL, np.where(X > 1, np.inf, X), Y, method=bg.MAP()), "no finite number"),
    "a column more": (lambda: bg.predict(fitted(), X[:, [0, 1, 1]], rule=bg.BMA()), "columns"),
    "no draws": (
        lambda: bg.predict(bg.fit(MODEL, X, Y, method=bg.MAP()), NEW, rule=bg.BMA()),
        "This is a point estimate",
    ),
    "no pairs": (lambda: bg.compare(MODEL, X, Y, X, Y, methods=[bg.MAP()]), "is no pair"),
    "no file": (lambda: bg.load("nowhere.nc"), "no such file"),
    "no plate": (lambda: bg.GenerativeProgram(without_plate, label=None), "exactly one plate"),
    "an unknown name": (lambda: bg.GenerativeProgram(misspelt, label=None), "name 'mean' is not defined"),
    "other shapes": (lambda: bg.GenerativeProgram(misshapen, label=None), "shapes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_tracebacks_of_usual_mistakes_are_short_and_end_in_the_reason(mistake):
    call, reason = MISTAKES[mistake]
    with pytest.raises(Exception, match=reason) as caught:
        call()
    text = "".join(traceback.format_exception(caught.value.with_traceback(caught.tb.tb_next)))
    assert text.count("\n") <= 25 and text.count("Traceback") == 1
    for function in (misspelt, misshapen):
        if function.__name__ in text:  # the user's line stands in it
            break
    else:
        assert isinstance(caught.value, bg.BayesgenError)


def test_causes_outside_of_the_library_and_faults_keep_their_frames():
    def foreign():
        int("seven")

    @public
    def refused():
        try:
            exec(compile("int('seven')", bg.__file__, "exec"))  # a frame of the package
        except ValueError as error:
            raise bg.DataError("no number") from error

    @public
    def at_fault():
        exec(compile("int('seven')", bg.__file__, "exec"))

    with pytest.raises(bg.DataError) as caught:
        refused()
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ValueError, match="seven") as fault:
        at_fault()
    assert [frame.name for frame in fault.traceback][-2:] == ["at_fault", "<module>"]


@pytest.mark.parametrize(
    ("call", "error", "choices"),
    [
        (lambda method: bg.fit(MODEL, X, Y, method=method), bg.DataError, "Exact() MAP() MLE() NUTS()"),
        (lambda method: bg.fit_many(MODEL, [(X, Y)], method=method), bg.DataError, "Exact() MAP() MLE() NUTS()"),
        (
            lambda method: bg.calibrate(MODEL, method=method, n=3, simulations=3),
            bg.DataError,
            "Exact() MAP() MLE() NUTS()",
        ),
        (lambda rule: bg.predict(fitted(), NEW, rule=rule), bg.PredictionError, "BMA() ConditionalAverage() PlugIn()"),
    ],
)
def test_what_is_no_object_is_refused_with_the_choices_and_the_one_that_it_names(call, error, choices):
    for choice in choices.split():
        cls = getattr(bg, choice[:-2])
        for value in (choice[:-2].lower(), cls):  # its name, and the class without parentheses
            with pytest.raises(error) as caught:
                call(value)
            message = str(caught.value)
            assert message.endswith(f"={choice}.") and all(other in message for other in choices.split())
            assert "PointMethod" not in message
    with pytest.raises(error, match="is missing"):
        call(None)


def test_missing_arguments_are_refused_with_the_choices():
    with pytest.raises(bg.DataError, match=r"method= is missing.*NUTS\(\)"):
        bg.fit(MODEL, X, Y)
    with pytest.raises(bg.PredictionError, match=r"rule= is missing.*BMA\(\)"):
        bg.predict(fitted(), NEW)


# --- what is told of long work ---------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "SILENCE", 0.08)
    while progress.RUNNING or progress.WATCH["thread"].is_alive():  # one that waits for longer
        time.sleep(0.01)


@public
def study_of_waiting(seconds, *, progress=None):
    with bar("Training sets", 24, progress) as advance:
        advance(3)
        waiting(seconds)


@public
def waiting(seconds):
    time.sleep(seconds)


def test_a_long_call_says_once_what_it_waits_for(impatient, capsys):
    study_of_waiting(0.4)
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert "study_of_waiting(float), Training sets (3 of 24), waiting(float)" in told.err
    assert "first calls compile" in told.err
    study_of_waiting(0.4)
    assert capsys.readouterr().err.count("\n") == 1  # each call anew
    assert progress.RUNNING == []


def test_short_and_quiet_calls_say_nothing(impatient, capsys):
    for _ in range(20):
        study_of_waiting(0.01)
    study_of_waiting(0.3, progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_shown_bar_is_enough_until_it_ends(impatient, capsys):
    study_of_waiting(0.3, progress=True)
    assert "at work" not in capsys.readouterr().err

    @public
    def with_more(seconds):
        study_of_waiting(0.2, progress=True)
        time.sleep(seconds)

    with_more(0.3)
    assert "at work on with_more(float)" in capsys.readouterr().err


def test_rows_whose_number_nobody_knows_are_counted_in_one_bar_at_a_time(impatient, capsys, monkeypatch):
    @public
    def reading(seconds, *, progress=None):
        with bar("Rows read", None) as outer, bar("Rows read inside", None) as advance:
            outer(2_000)
            advance(1_000)
            time.sleep(seconds)

    reading(0.3)
    assert "reading(float), Rows read (2,000), Rows read inside (1,000);" in capsys.readouterr().err
    reading(0.3, progress=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich shows its bars where there is no terminal
    reading(0.3, progress=True)
    shown = capsys.readouterr().err
    assert (
        "2000/?" in re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", shown) and "inside" not in shown and "at work" not in shown
    )


class Notebook:
    """IPython in a notebook, as far as it is asked: the texts that one line has had."""

    def __init__(self):
        self.kernel, self.texts, self.num_lines = object(), [], 0

    def get_ipython(self):
        return self

    def display(self, data, *, raw, display_id):
        assert raw and display_id
        self.num_lines += 1
        return self if self.update(data, raw=raw) is None else None

    def update(self, data, *, raw):
        self.texts.append(data["text/plain"])


def test_a_notebook_has_one_line_that_is_kept_up_to_date(impatient, capsys, monkeypatch):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    study_of_waiting(0.5, progress=True)
    assert notebook.num_lines == 1 and len(notebook.texts) > 2
    assert all("Training sets (3 of 24)" in text for text in notebook.texts[:-1])
    assert re.fullmatch(r"bayesgen: at work for \d+ s\.", notebook.texts[-1])
    study_of_waiting(0.01)
    study_of_waiting(0.3, progress=False)
    assert notebook.num_lines == 1 and capsys.readouterr() == ("", "")


class CodeError(Exception):
    """An error of a program of the user's."""


def failing(n):
    raise CodeError("no model") from KeyError("root")


def test_the_cause_that_a_program_states_is_kept():
    with pytest.raises(CodeError) as caught:
        bg.GenerativeProgram(failing, label=None)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_is_hidden_stays_hidden():
    @public
    def refused():
        try:
            fitted_by_name("a")
        except TypeError:
            raise bg.DataError("no row") from None

    def fitted_by_name(name):
        raise TypeError(name)

    with pytest.raises(bg.DataError) as caught:
        refused()
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_what_the_caller_is_handling_stays_as_it_is():
    @public
    def refused():
        raise bg.DataError("no row")

    code = compile("try:\n  raise error\nexcept ValueError:\n  refused()", "site-packages/other.py", "exec")
    with pytest.raises(bg.DataError, match="no row") as caught:
        exec(code, {"error": bg.DataError("no table"), "refused": refused})
    assert str(caught.value.__context__) == "no table" and not caught.value.__suppress_context__


def test_calls_work_without_a_standard_error_and_without_threads(monkeypatch, capsys):
    class NoThread(threading.Thread):
        def start(self):
            raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(progress, "SILENCE", -1.0)
    with at_work("a step"):
        monkeypatch.setattr(sys, "stderr", None)
        monkeypatch.setitem(sys.modules, "IPython", None)  # as where imports of it are blocked
        with bar("Rounds", 2, None) as advance:
            advance(1)
        progress.Work(is_quiet=False).tell_if_long()
        monkeypatch.undo()
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(progress.WATCH, "thread", threading.Thread())
    monkeypatch.setattr(threading, "Thread", NoThread)
    with at_work("a step"):
        assert len(progress.RUNNING) == 1
    assert not progress.RUNNING
