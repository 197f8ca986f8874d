import pytest

from nsac.estimators.cells import decimal_separator, remove_separators


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1,100", "950", "-12,345.5"], [1100, 950, -12345.5]),  # thousands
        (["1,5", "-2,25", "1,100"], [1.5, -2.25, 1.1]),  # decimal commas: 1,5 decides it
        (["1.234,5", "7"], [1234.5, 7]),
        (["1 234", "5"], [1234, 5]),
        (["1'234.5", "5"], [1234.5, 5]),
    ],
)
def test_separators_mean_the_same_in_the_whole_column(texts, numbers):
    decimal = decimal_separator(texts)
    assert decimal is not None and [float(remove_separators(text, decimal)) for text in texts] == numbers


@pytest.mark.parametrize("texts", [["1,5", "1.5"], ["1,23,456"], ["a"], ["12,34.5"], [1.0, "1,100"]])
def test_other_texts_have_no_decimal_separator(texts):
    assert decimal_separator(texts) is None
