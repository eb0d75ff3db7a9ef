"""Sphinx's settings. To build: pip install -e '.[docs]' && sphinx-build -W -b html docs docs/_build/html."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
os.environ |= {"DPML_OFFLINE": "1", "MPLBACKEND": "agg"}  # nothing is fetched, and no window opens

from dpml import __version__

project = "dpml"
author = "the authors of dpml"
release = version = __version__
copyright = author  # no year: a build of the same sources is the same

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "dpml_docs.docstrings",
    "dpml_docs.mathml",
    "dpml_docs.pages",
    "dpml_docs.links",
]
exclude_patterns = ["_build", "_ext", "examples", "**.ipynb"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_title = "dpml"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
# no sidebar where there are no pages below
html_sidebars: dict[str, list[str]] = {name: [] for name in ("index", "own_data", "release", "federation", "api")}
html_theme_options = {
    "header_links_before_dropdown": 10,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "navigation_depth": 3,
    "secondary_sidebar_items": ["page-toc"],
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_update_mathjax = False  # there is none

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "tour",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "download_all_examples": False,
    "write_computation_times": False,
    "copyfile_regex": "",
}
suppress_warnings = ["config.cache"]  # of sphinx_gallery_conf, which nobody reads after this
