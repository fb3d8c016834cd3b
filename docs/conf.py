"""How Sphinx builds the site: `.ci/docs`, or `sphinx-build -W docs docs/_build`."""

import urllib.request
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util import logging

import bayesgen

project = "bayesgen"
author = "the bayesgen authors"
version = release = bayesgen.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

html_theme = "sphinx_book_theme"
html_title = "bayesgen"
html_theme_options = {"show_toc_level": 2, "navbar_persistent": []}  # no second search
html_static_path = ["_static"]
html_css_files = ["site.css"]

# Links such as page.md#a-heading, as code hosts make them from headings.
myst_heading_anchors = 3
# Code in plain fences is run by tests/pages.py. A page with cells of MyST-NB is run here.
nb_execution_mode = "auto"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_output_stderr = "remove"  # what tqdm says where ipywidgets are not installed

autosummary_generate = True
autodoc_typehints = "none"  # the signatures show them; shapes of arrays are explained there
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
napoleon_attr_annotations = False  # axes such as "*K" in annotations are no emphasis
default_role = "name"  # what docstrings have in single backticks

INVENTORIES = {
    "numpyro": "https://num.pyro.ai/en/stable/",
    "arviz": "https://python.arviz.org/projects/base/en/latest/",
    "sklearn": "https://scikit-learn.org/stable/",
}


def answers(address: str) -> bool:
    """If an inventory can be read: without a network, there are no links to other sites."""
    try:
        with urllib.request.urlopen(f"{address}objects.inv", timeout=5):
            return True
    except OSError:
        logging.getLogger(__name__).info("no links to %s: it does not answer", address)
        return False


intersphinx_mapping = {
    name: (address, None) for name, address in INVENTORIES.items() if answers(address)
}


def name_role(
    role: str, raw: str, text: str, *arguments: Any, **options: Any
) -> tuple[list, list]:
    """A link to a public name of bayesgen; other code as it is."""
    name = text.removesuffix("()")
    if name in bayesgen.__all__:
        target = f"{text} <bayesgen.{name}>"
        return PyXRefRole()("py:obj", f"`{target}`", target, *arguments, **options)
    return [nodes.literal(raw, text)], []


def whole_docstring(docstring: GoogleDocstring) -> tuple[str, list[str]]:
    """No type, and all lines: docstrings of properties are sentences, some with a colon."""
    lines = docstring._dedent(docstring._consume_to_end())
    return "", GoogleDocstring(lines, docstring._config).lines()


def setup(app: Sphinx) -> None:
    app.add_role("name", name_role)
    GoogleDocstring._consume_inline_attribute = whole_docstring
