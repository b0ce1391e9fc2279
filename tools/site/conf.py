"""Sphinx settings of the site; `tools/build_site.py` runs Sphinx on the pages that it gathered."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

project = "Lockfast"
author = "the authors of Lockfast"
copyright = "the authors of Lockfast; Apache-2.0"  # noqa: A001 - Sphinx calls it so
release = PYPROJECT["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
# Otherwise "--" in a sentence about an option would become a dash.
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
# Console output contains ellipses and prompts, which Pygments would report as errors.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 76
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "Lockfast"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_favicon = "static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo.svg",
    "light_css_variables": {
        "color-brand-primary": "#0b5c6b",
        "color-brand-content": "#0b5c6b",
        "color-brand-visited": "#0b5c6b",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5fc9dc",
        "color-brand-content": "#5fc9dc",
        "color-brand-visited": "#5fc9dc",
    },
}
