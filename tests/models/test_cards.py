"""What runs and models show of themselves in a notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import TINY, tiny_config

from models.base import build
from models.cards import card
from models.families import FAMILIES
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.runs.run import Run

EVIL = "<script>&\"'"


def rows(html: str) -> dict[str, str]:
    """The names and values of a card, as they stand in its source."""
    return dict(re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", html))


def test_all_text_of_a_card_is_escaped() -> None:
    shown = card(EVIL, {EVIL: EVIL})
    assert shown.count("&lt;script&gt;&amp;&quot;&#x27;") == 3
    assert "<script" not in shown


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_shows_its_kind_and_sizes(family: str) -> None:
    model = build(ModelConfig(family, d_model=8, n_heads=2, order=2), Vocabulary(("a", "<b>")))
    shown = rows(model._repr_html_())
    assert shown["symbols"] == "a &lt;b&gt;"
    assert int(shown["parameters"].replace(",", "")) > 0
    sizes = {
        "transformer": {"n_layers": "2", "n_heads": "2", "d_model": "8", "d_mlp": "256"},
        "lstm": {"n_layers": "2", "d_model": "8"},
        "gru": {"n_layers": "2", "d_model": "8"},
        "rnn": {"n_layers": "2", "d_model": "8"},
        "cnn": {"n_layers": "2", "d_model": "8", "kernel_size": "5"},
        "encoder-decoder": {"n_layers": "2", "n_heads": "2", "d_model": "8", "d_mlp": "256"},
        "lstm-encoder-decoder": {"n_layers": "2", "d_model": "8"},
        "lstm-attention": {"n_layers": "2", "d_model": "8"},
        "ngram": {"order": "2"},
        "feedforward": {"n_layers": "2", "d_mlp": "256"},
    }
    kind = {"transformer": "decoder", "ngram": "2-gram"}.get(family, family)
    expected = {"kind": kind, **sizes[family]}
    assert {
        name: shown[name] for name in shown if name not in ("symbols", "parameters")
    } == expected


def test_the_parameters_are_counted() -> None:
    shown = rows(build(TINY, Vocabulary(("a", "b")))._repr_html_())
    embed, unembed, attention = 4 * 8, 8 * 4 + 4, 4 * (8 * 8 + 8)
    mlp, norms = 8 * 16 + 16 + 16 * 8 + 8, 2 * 2 * 8
    assert int(shown["parameters"]) == embed + unembed + attention + mlp + norms


def test_a_model_without_mlps_shows_no_width_of_them() -> None:
    model = build(ModelConfig(mlp="none"), Vocabulary(("a", "b")))
    assert "d_mlp" not in model._repr_html_()


def test_a_run_shows_itself_before_and_after_training(trained: Run, tmp_path: Path) -> None:
    new = Run.create(tmp_path / EVIL, tiny_config())
    shown = rows(new._repr_html_())
    assert "<script" not in new._repr_html_()
    assert shown["status"] == "training"
    assert "step" not in shown
    shown = rows(trained._repr_html_())
    assert shown["language"] == "anbn (context-free; a b)"
    assert shown["taught"] == "next-symbols, sizes 1 to 4, seed 0"
    assert (shown["status"], shown["step"]) == ("finished", "12")
    right = trained.metrics()[-1]["recognition"]
    assert shown["right verdicts"] == f"{right:.1%} in the training window"
    assert repr(trained) == "Run('run')"


def test_there_are_no_colours(trained: Run) -> None:
    """So that it can be read on a light and on a dark page."""
    for shown in (trained, trained.model()):
        assert not re.search(r"color|background|#\w{3}", shown._repr_html_())
