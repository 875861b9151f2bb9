"""The page of exceptions is what the code says, and none is left out."""

from __future__ import annotations

import inspect

import forbear
from forbear import errors
from tests.docs.exceptions_table import PAGE, page, parts, public


def test_the_page_of_exceptions_is_made_from_the_code() -> None:
    """A change of a docstring is a change of the page."""
    assert PAGE.read_text("utf-8") == page()


def test_every_exception_is_public_and_says_when_and_what_to_do() -> None:
    """Whatever the module of errors defines can be imported from the top, and has all three parts."""
    defined = {
        name
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, BaseException) and one.__module__ == errors.__name__
    }
    assert defined == set(errors.__all__) == {one.__name__ for one in public()}
    assert defined <= set(forbear.__all__)
    for error in public():
        assert parts(error).keys() - {"Fields"} == {"is", "When", "Do"}, error.__name__
    assert "`retry_after_seconds`" in parts(forbear.Refused)["Fields"]
