"""Docstrings in the Google, NumPy and Sphinx styles."""

from __future__ import annotations

import pytest

from pegboard.core.schema.annotations import NOTHING, read_docstring

GOOGLE = """Look rows up.

    Use it before writing.

    Args:
        query: What to look for,
            in words.
        *rest: More.

    Returns:
        Rows.

    Raises:
        NotFound: no row.
    """
NUMPY = """Look rows up.

    Use it before writing.

    Parameters
    ----------
    query : str
        What to look for,
        in words.
    rest
        More.

    Returns
    -------
    str
        Rows.
    """
SPHINX = """Look rows up.

    Use it before writing.

    :param str query: What to look for,
        in words.
    :param rest: More.
    :returns: Rows.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_description_parameters_and_result(text: str) -> None:
    read = read_docstring(text)

    assert read.description == "Look rows up.\n\nUse it before writing."
    assert read.parameters == {"query": "What to look for, in words.", "rest": "More."}
    assert read.returns == "Rows."


def test_numpy_names_may_share_a_line() -> None:
    read = read_docstring("Add.\n\nParameters\n----------\nx, y : int\n    A number.\n")

    assert read.parameters == {"x": "A number.", "y": "A number."}


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_no_docstring_says_nothing(text: str | None) -> None:
    assert read_docstring(text) is NOTHING


def test_text_after_the_first_section_is_not_for_the_model() -> None:
    read = read_docstring("Do it.\n\nArgs:\n    a: A.\n\nInternal notes.\n\nNote:\n    Nothing.\n")

    assert read.description == "Do it."
