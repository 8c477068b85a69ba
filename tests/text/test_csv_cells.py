"""Texts in CSV cannot run as formulas, numbers stay numbers, and the original can be restored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.text.csv_cells import neutralize_cell, restore_cell

FORMULAS = ["=1+1", "+SUM(A1)", "-2+3", "@cmd", "\tx", "\r=1", "\n=1", "-abc", "＝1", "'=1", "''@x", "=", "-", "+-1"]
HARMLESS = ["", "storm", "-5", "+3.25", "-1e-9", ".5", "007", "'quoted'", "a=b", "https://a.example/?x=-1", "1-2"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_gets_an_apostrophe(text):
    assert neutralize_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_and_other_texts_stay_as_they_are(text):
    assert neutralize_cell(text) == text


@given(st.text(alphabet="='+-@\t\r\n1.eEa ＝", max_size=6))
def test_the_original_can_be_restored(text):
    assert restore_cell(neutralize_cell(text)) == text
