"""One head on one word, and the page that shows it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, drawn, healthy, said

from analyses.answers import Answers, answer
from analyses.questions.parts import head as one_head
from analyses.questions.parts import heads
from analyses.questions.parts.looks import on_word
from analyses.words import sample_window
from interp.heads.attention import patterns
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from models.languages import END_ID
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.transformer.model import HookedTransformer

pytestmark = pytest.mark.slow  # two runs asked before the first page

WORD = ("a", "a", "b", "b")
ASKED = heads.Options(words=20, members=3)


@pytest.fixture(scope="module", params=["next-symbols", "verdict"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished tiny run, taught sets of next symbols or verdicts alone (an encoder)."""
    encoder = {"mask": "bidirectional"} if request.param == "verdict" else {}
    model = ModelConfig(n_layers=2, n_heads=3, d_model=12, d_mlp=12, **encoder)
    config = tiny_config(model=model, objective=request.param, steps=12, max_n=6)
    made = Run.create(tmp_path_factory.mktemp(request.param) / "run", config)
    train(made, "cpu")
    answer(made, "heads", ASKED)
    return made


@torch.no_grad()
def logit(run: Run, tokens: torch.Tensor, hook: str = "", head: int = 0, z: object = None) -> float:
    """END's logit of one word, with a head's output replaced by hand."""
    model = run.model()

    def put(old: torch.Tensor, hook: object) -> torch.Tensor:
        old = old.clone()
        old[0, :, head] = z
        return old

    logits = model.run_with_hooks(tokens[None], fwd_hooks=[(hook, put)] if hook else [])
    return logits[0, 0 if model.config.sees_ahead else -1, END_ID].item()


@pytest.mark.slow
@pytest.mark.parametrize("word", [WORD, ("a", "b", "b")], ids=["member", "another"])
def test_verdicts_without_a_head(run: Run, word: tuple[str, ...]) -> None:
    """The mean is over the other words alone."""
    model = run.model()
    table = one_head.verdicts_without(model, run, word)
    tokens = model.to_tokens(" ".join(word))[0]
    others = sample_window(run, one_head.OTHERS, 0).words
    mask = np.pad(others.mask, ((0, 0), (1, 0)), constant_values=True)
    for row in table.itertuples():
        hook = f"blocks.{row.layer}.attn.hook_z"
        _, cache = model.run_with_cache(torch.as_tensor(others.tokens), names_filter=[hook])
        z = cache[hook][:, :, row.head]
        assert row.before == pytest.approx(logit(run, tokens), abs=1e-5)
        instead = z[torch.as_tensor(mask)].mean(0) if row.method == "mean" else 0 * z[0, 0]
        assert row.after == pytest.approx(logit(run, tokens, hook, row.head, instead), abs=1e-5)
    assert len(table) == 2 * 2 * 3
    assert (table["after"] - table["before"]).abs().max() > 1e-3


def test_circuits_name_what_the_run_reads_and_was_taught(run: Run) -> None:
    table = one_head.circuits(run.model(), run, 1, 2)
    tokens = run.language.vocabulary.ids
    qk, ov = qk_circuit(run.model(), 1, 2), ov_circuit(run.model(), 1, 2)
    for row in table.itertuples():
        circuit = {"QK": qk, "OV": ov}[row.circuit]
        expected = circuit[tokens[row.source], tokens[row.target]]
        assert row.value == pytest.approx(float(expected))
    read, taught = {"<bos>", "a", "b"}, {"<end>"}
    taught |= {"a", "b"} if run.config.objective == "next-symbols" else set()
    for name, targets in (("QK", read), ("OV", taught)):
        rows = table[table["circuit"] == name]
        assert set(rows["source"]) == read
        assert set(rows["target"]) == targets
        assert len(rows) == len(read) * len(targets)


def test_rotary_scores_are_those_of_a_key_right_before_its_query(run: Run) -> None:
    config = replace(run.config.model, positions="rotary")
    model = HookedTransformer(config, run.language.vocabulary, 0).eval()
    qk, ids = qk_circuit(model, 1, 2, distance=1), run.language.vocabulary.ids
    rows = one_head.circuits(model, run, 1, 2).query("circuit == 'QK'")
    expected = [qk[ids[s], ids[t]] for s, t in zip(rows["source"], rows["target"], strict=True)]
    assert rows["value"].to_numpy() == pytest.approx(torch.stack(expected).numpy())


# -- the page -------------------------------------------------------------------------------------


def opened(
    run: Run, monkeypatch: pytest.MonkeyPatch, address: str = "heads", **link: str
) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(run.path.parent)])
    page = AppTest.from_string(SHOW.format(page=address), default_timeout=120)
    for name, value in link.items():
        page.query_params[name] = value
    return healthy(page.run())


def framed(page: AppTest, model: str) -> tuple[pd.DataFrame, str]:
    """The grid of a model: its cells, and its specification."""
    charts = [c.proto for c in page.get("vega_lite_chart")]
    (chart,) = (c for c in charts if c.alt.endswith(f"The model is {model}."))
    (cells,) = drawn(page, chart.alt)
    return cells, chart.spec


@pytest.mark.slow
@pytest.mark.parametrize("run", ["verdict"], indirect=True)
def test_the_grid_shows_the_measure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(run, monkeypatch)
    kept = Answers(run.path, "heads").latest()
    assert kept is not None
    for kind, by, measure in (
        (None, None, "accuracy lost, mean ablation"),
        (None, "resample ablation", "accuracy lost, resample ablation"),
        ("attention", "BOS", "attention, BOS"),
        ("attention against effect", None, "attention against effect"),
    ):
        if kind:
            page = healthy(page.segmented_control(key="measure").set_value(kind).run())
        if by:
            page = healthy(page.segmented_control[1].set_value(by).run())
        for model in ("trained", "untrained"):
            cells, _ = framed(page, model)
            rows = kept.table[(kept.table["measure"] == measure) & (kept.table["head"] >= 0)]
            rows = rows[rows["model"] == model]
            assert cells["value"].tolist() == pytest.approx(rows["value"].tolist(), nan_ok=True)
            assert cells["part"].tolist() == rows["part"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("run", ["next-symbols"], indirect=True)
def test_a_head_is_linked_and_chosen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for link, part in (({}, "L0H0"), ({"head_of_2x3": "L1H2"}, "L1H2")):
        page = opened(run, monkeypatch, **link)
        assert page.selectbox(key="head_of_2x3").value == part
        layers = json.loads(framed(page, "trained")[1])["layer"]
        frames = [each["filter"] for layer in layers for each in layer.get("transform", [])]
        assert frames == [{"field": "part", "equal": part}]
        assert any(header.value == f"{part} on this line" for header in page.subheader)
    page = healthy(page.selectbox(key="head_of_2x3").set_value("L1H0").run())
    assert any(header.value == "L1H0 on this line" for header in page.subheader)


def test_a_head_on_the_typed_word(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(run, monkeypatch, head_of_2x3="L1H2", word_anbn="a a b b")
    model, own = run.model(), "layer == 1 and head == 2"
    (verdicts,) = (f.value for f in page.dataframe if "verdict" in f.value)
    rows = one_head.verdicts_without(model, run, WORD).query(own)
    logits = [rows["before"].iloc[0], *rows["after"]]
    assert verdicts["END's logit"].tolist() == pytest.approx(logits)
    assert verdicts["verdict"].tolist() == ["in" if x > 0 else "not in" for x in logits]
    for name in ("QK", "OV"):
        (circuit,) = drawn(page, f"The {name} circuit of L1H2")
        table = one_head.circuits(model, run, 1, 2).query("circuit == @name")
        assert circuit["value"].tolist() == pytest.approx(table["value"].tolist())


@pytest.mark.parametrize("run", ["verdict"], indirect=True)
def test_a_run_that_was_not_asked_shows_its_heads_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fresh = Run.create(tmp_path / "run", run.config)
    train(fresh, "cpu")
    page = opened(fresh, monkeypatch)
    assert "has not been asked" in page.info[0].value
    assert drawn(page, "The QK circuit of L0H0")


def test_scores_of_a_head_that_averages_are_drawn_as_zeros() -> None:
    places = {"source": ["a", "b"], "target": ["b", "a"]}
    for value, largest in ((0.0, 1.0), (-2.5, 2.5)):
        rows = pd.DataFrame({"circuit": "QK", **places, "value": [0.0, value]})
        colour = one_head.circuit_chart(rows, "QK").to_dict()["layer"][0]["encoding"]["color"]
        assert colour["scale"]["domain"] == [-largest, 0, largest]


# -- a line ---------------------------------------------------------------------------------------


@torch.no_grad()
def test_each_look_is_hidden_by_hand(run: Run) -> None:
    """A look whose score is -inf is hidden; what hangs on it is what END's logit then loses."""
    model, word = run.model(), ("a", "b", "b")
    tokens = model.to_tokens(" ".join(word))
    end = 0 if model.config.sees_ahead else -1
    table = on_word(model, word)
    assert table["moved"].abs().max() > 1e-3
    for row in table.itertuples():

        def hide(scores: torch.Tensor, hook: object, row: Any = row) -> torch.Tensor:
            scores = scores.clone()
            scores[0, row.head, row.query, row.key] = -torch.inf
            return scores

        name = f"blocks.{row.layer}.attn.hook_attn_scores"
        if (table.query("part == @row.part and query == @row.query")["key"] != row.key).any():
            logits = model.run_with_hooks(tokens, fwd_hooks=[(name, hide)])
            moved = float(model(tokens)[0, end, END_ID] - logits[0, end, END_ID])
            assert row.moved == pytest.approx(moved, abs=1e-5)
    expected = patterns(model, tokens)
    columns = ["layer", "head", "query", "key", "attention"]
    pd.testing.assert_frame_equal(table[columns], expected[columns])


def test_the_looks_of_a_line_are_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(
        run, monkeypatch, "try", word_anbn="a a b b", reads_anbn="2 a", head_of_2x3="L1H2"
    )
    table = on_word(run.model(), WORD)
    rows = table[table["query"] == 2]
    names = ("0 <bos>", "1 a", "2 a", "3 b", "4 b")
    strongest = table.loc[table["moved"].abs().idxmax()]
    floor = on_word(run.untrained(), WORD)["moved"].abs().max()
    told = dict[str, Any]()
    for key in (0, 1, 2):
        look = rows[rows["key"] == key].nlargest(1, "attention").iloc[0]
        changed = f"{look['attention']:.0%}, {round(look['moved'], 2) + 0.0:+.2f}"
        assert f"{names[key]} {look['part']} ({changed})" in said(page)
    assert "While it reads 2 a, the head that looks most at a symbol" in said(page)
    if abs(strongest["moved"]) > 2 * floor:
        told["Most hangs on the look of {0} from {2} at {1} ({3}): {4}"] = strongest
    else:  # as here, after a few steps
        assert "No look on this line adds much more to END's logit" in said(page)
        assert "Most hangs on" not in said(page)
    for words, look in told.items():
        key, query = (names[look[side]] for side in ("key", "query"))
        lost = f"it adds {look['moved']:+.2f} to END's logit, which is above 0 in the language."
        share = f"{look['attention']:.0%} of its attention"
        assert words.format(look["part"], key, query, share, lost) in said(page)
    assert f"adds or takes away more than {floor:.2f}." in said(page)
    assert ("Heads of the last layer cannot matter here" in said(page)) == run.config.model.causal
    for title, value in (("Where it looks", "attention"), ("What hangs on it", "moved")):
        every, lines, names = drawn(page, title)
        assert every[value].tolist() == pytest.approx(rows[value].tolist())
        assert lines[value].tolist() == pytest.approx(table.query("part == 'L1H2'")[value].tolist())
        assert names["token"].tolist() == ["<bos>", *WORD]
    page = healthy(page.segmented_control(key="reads_anbn").set_value("0 <bos>").run())
    assert "While it reads 0 <bos>, the head that looks most at a symbol" in said(page)
