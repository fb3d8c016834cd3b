"""Reports: one page that needs nothing else, says what the tables say, and holds nothing of the data unescaped."""

import base64
import enum
import functools
import html
import html.parser
import re

import numpy as np
import pandas as pd
import pytest
from prediction.draws import IndependentDraws

import bayesgen as bg
from bayesgen.describe import with_error

PAIRS = [(bg.MLE(), bg.PlugIn()), (bg.MAP(), bg.PlugIn()), (bg.Exact(), bg.PlugIn()), (bg.Exact(), bg.BMA())]
KINDS = {"one process", "average"}
VOID = {"meta", "img", "source", "br", "link", "hr"}
WILD = ["<b>", "\"a' onload=1", "&amp;"]  # labels, names of columns and of models


class Reader(html.parser.HTMLParser):
    """Tags, texts and addresses of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.sources, self.tags, self.rows, self.texts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "srcset", "href", "action", "data")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        self.open += [] if tag in VOID else [tag]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def normal_rows(size, seed=0):
    y = np.arange(size) % 3
    X = pd.DataFrame(np.random.default_rng(seed).normal(size=(size, 2)) + 0.8 * y[:, None], columns=WILD[:2])
    return X, np.array(WILD)[y]


@functools.cache
def of_classes():
    named = enum.StrEnum("Named", {"FULL": "full"})  # as the command line names models
    models = {named.FULL: bg.GaussianDiscriminant(), WILD[0]: bg.NaiveBayes()}
    return bg.compare(models, *normal_rows(15), *normal_rows(60, seed=1), methods=PAIRS)


def numbers():
    noise = np.random.default_rng(2).normal(size=(40, 3))
    X, y = noise[:, :2], noise @ [1.0, 2.0, 1.0]
    return {"X": X[:8], "y": y[:8], "X_test": X[8:], "y_test": y[8:]}


@functools.cache
def of_numbers():
    return bg.compare(bg.JointGaussianRegression(), *numbers().values(), methods=PAIRS)


@functools.cache
def of_densities():
    X = np.random.default_rng(3).normal(size=(30, 2))
    pairs = [(bg.MLE(num_starts=1), bg.PlugIn()), (bg.MAP(num_starts=1), bg.PlugIn())]
    return bg.compare(bg.Mixture(bg.GaussianDiscriminant("diag"), 1), X[:20], None, X[20:], None, methods=pairs)


@functools.cache
def study():
    models = [bg.GaussianDiscriminant(), bg.NaiveBayes()]
    return bg.study(models, *normal_rows(90), sizes=[2, 10], repeats=3, pairs=PAIRS)


@functools.cache
def page_of(make):
    return make().to_html()


REPORTS = pytest.mark.parametrize("make", [of_classes, of_numbers, of_densities, study])


@REPORTS
def test_a_page_is_whole_and_needs_nothing_else(make):
    page = page_of(make)
    reader = Reader(page)
    assert 20_000 < len(page.encode()) < 2_000_000
    assert {"script", "link", "iframe", "object", "form"}.isdisjoint(reader.tags)
    assert "url(" not in page and "@import" not in page and "http" not in page
    assert reader.sources and len(reader.sources) % 2 == 0
    for source in reader.sources:
        kind, content = source.split(",", 1)
        assert kind == "data:image/png;base64" and base64.b64decode(content, validate=True).startswith(b"\x89PNG")
    assert page.startswith("<!DOCTYPE html>") and 'lang="en"' in page and "width=device-width" in page
    assert "prefers-color-scheme: dark" in page and "max-width: 640px" in page
    assert all(f"<h2>{heading}</h2>" in page for heading in ("What was compared", "Scores", "How to run it again"))


@REPORTS
def test_a_page_says_the_verdict_and_the_settings(make):
    result, texts = make(), Reader(page_of(make)).texts
    assert set(result.verdict.splitlines()) <= set(texts)
    assert set(result.config["models"].values()) <= set(texts)
    assert [
        text
        for text in texts
        if text.startswith("Versions: bayesgen ") and f"numpyro {result.versions['numpyro']}" in text
    ]


@pytest.mark.parametrize("make", [of_classes, of_numbers, of_densities])
def test_every_score_of_a_comparison_is_in_a_table(make):
    result, rows = make(), Reader(page_of(make)).rows
    for line in result.table.to_dict("records"):
        name = f"{line['method']} + {line['rule']}"
        shown = [metric.text(line[metric.column]) for metric in result.target.metrics if metric.name]
        shown = [text if text != "nan" else "–" for text in shown] + [
            with_error(line[column], line[error]) or "–"
            for column, error in (
                ("difference", "standard_error"),
                ("difference_from_mean", "standard_error_from_mean"),
            )
            if result.table[column].notna().any() and (result.table[column] != 0).any()
        ]
        assert any(row[0] == name and set(shown) <= set(row) for row in rows), (name, shown)


def test_every_score_of_a_study_is_in_a_table():
    result, rows = study(), Reader(page_of(study)).rows
    for line in result.summary.to_dict("records"):
        shown = [f"{line['method']} + {line['rule']}", str(line["size"]), str(line["repeats"])]
        if line["repeats"]:
            shown += [f"{line['accuracy']:.3f}", f"{line['log_score']:.4f}".replace("-", "−"), f"{line['brier']:.4f}"]
            shown += [with_error(line["difference"], line["standard_error"]) or "–"]
        assert any(set(shown) <= set(row) for row in rows), shown


def test_best_scores_are_marked():
    page, table = page_of(of_numbers), of_numbers().table
    best = {re.sub("<[^>]*>", "", cell) for cell in re.findall(r'<td class="number best">[^<]*</td>', page)}
    assert f"{table['log_score'].max():.4f}".replace("-", "−") in best


def test_rows_that_differ_are_listed():
    result, rows = of_classes(), Reader(page_of(of_classes)).rows
    heads = [row for row in rows if row[:2] == ["row", "truth"]]
    assert len(heads) == 2 and heads[0][2:] == [f"{a.method} + {a.rule}" for a in result.scored if a.model == "full"]
    assert any(len(row) == 6 and row[1] in WILD and re.fullmatch(r".+ · \d\.\d{3}", row[2]) for row in rows)


def test_names_of_the_data_are_escaped():
    page = page_of(of_classes)
    assert html.escape("    'full': GaussianDiscriminant(") in page
    for name in WILD:
        assert html.escape(name) in page
    assert "<b>" not in page and "' onload=1" not in page and "&amp;amp;" in page


def test_refusals_are_told():
    X, y = normal_rows(6)  # two rows of each class: no covariance
    result = bg.compare(bg.GaussianDiscriminant(), X, y, *normal_rows(9), methods=PAIRS[:2])
    refused = result.table["refused"].dropna()
    texts = Reader(result.to_html()).texts
    assert len(refused) == 1 and any(text.endswith(refused.iloc[0]) for text in texts)
    table = study().table
    messages = set(table["refused"].dropna())
    assert messages and all(any(message in text for text in Reader(page_of(study)).texts) for message in messages)


def test_what_chains_are_worth_is_told():
    X, y = np.arange(30)[:, None] % 3 > 0, np.arange(30) % 2
    pairs = [(IndependentDraws(), bg.BMA()), (bg.MAP(), bg.PlugIn())]
    result = bg.compare(bg.NaiveBayes(bg.BetaBernoulli()), X, y, X[:9], y[:9], methods=pairs)
    diagnosis = result.scored[0].fitted.diagnose()
    texts = Reader(result.to_html()).texts
    assert any(diagnosis.verdict in text and "its chains: " in text for text in texts)
    error = result.scored[0].prediction.standard_error.max()
    assert f"at most {error:.2g}" in texts and "0 rows" in texts


def test_the_page_is_written_and_has_a_title(tmp_path):
    path = tmp_path / "report.html"
    page = of_numbers().to_html(path, title="sizes & weights")
    assert path.read_text("utf-8") == page
    assert "<title>sizes &amp; weights</title>" in page and "<h1>sizes &amp; weights</h1>" in page


@pytest.mark.parametrize("make", [of_numbers, study])
def test_the_call_makes_it_again(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", page_of(make), re.DOTALL)[1])
    names = numbers() if make is of_numbers else dict(zip("Xy", normal_rows(90), strict=True))
    exec(code, names)
    written = (tmp_path / "report.html").read_text("utf-8")
    scores = [[row for row in Reader(page).rows if KINDS & {*row[1:2]}] for page in (written, page_of(make))]
    assert scores[0] == scores[1] and len(scores[0]) >= len(PAIRS)
