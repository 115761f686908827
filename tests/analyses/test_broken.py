"""What is taken away is gone, and nothing else: by hand, on a word, on many, and on the page."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from compared import plainly
from conftest import tiny_config
from streamlit.testing.v1 import AppTest

from analyses.answers import Answer, answer, fresh_answer
from analyses.command_line.app import main
from analyses.options.parts import Ablation as Options
from analyses.questions.parts import ablation as broken
from analyses.questions.parts.ablation import (
    AS_IT_IS,
    BROKEN,
    QUESTION,
    RANDOM,
    Removal,
    _balanced,
    _removal_of,
    _right_without,
    edges_of,
    parts_of,
    said_without,
)
from analyses.words import WordTensors
from interp.causal.ablation import Ablation, ablate
from interp.causal.metrics import logit_at
from interp.statistics import weighted_sum, wilson
from models.errors import UserError
from models.languages import END_ID, Words
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train

WORD = ("a", "a", "b", "b")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tiny run of two layers, which no test changes."""
    model = ModelConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=16)
    run = Run.create(tmp_path_factory.mktemp("broken") / "run", tiny_config(model=model, steps=4))
    train(run, "cpu")
    return run


def logits(run: Run, removal: Removal, words: Words, reference: Words) -> torch.Tensor:
    return removal.logits(run.model(), words, reference)


def test_nothing_away_is_the_model_as_it_is(trained: Run) -> None:
    said = said_without(trained.model(), trained, Removal([]), WORD)
    by = {name: rows["probability"].tolist() for name, rows in said.groupby("run")}
    assert by[AS_IT_IS] == by[BROKEN]
    table = _right_without(trained.model(), trained, Removal([]))
    assert table["of"].tolist() == [AS_IT_IS] * 2 + [BROKEN] * 2  # nothing to compare it with
    assert (table["lost"] == 0).all()


def test_zero_is_zero_by_hand(trained: Run) -> None:
    model, words = trained.model(), trained.language.vocabulary.words([WORD])
    away = ["L0H1", "L1 mlp"]

    def head(z: torch.Tensor, hook: object) -> torch.Tensor:
        z = z.clone()
        z[:, :, 1] = 0
        return z

    hooks = [("blocks.0.attn.hook_z", head), ("blocks.1.hook_mlp_out", lambda x, hook: x * 0)]
    expected = model.run_with_hooks(torch.as_tensor(words.tokens), fwd_hooks=hooks)
    found = logits(trained, Removal(away, "zero"), words, words)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not torch.equal(found, model(torch.as_tensor(words.tokens)))


def test_a_mean_is_over_the_positions_of_the_reference(trained: Run) -> None:
    vocabulary = trained.language.vocabulary
    words, reference = vocabulary.words([WORD]), vocabulary.words([("a", "b"), ("a", "a", "b")])
    model, lens = trained.model(), WordTensors.of(reference)
    _, cache = model.run_with_cache(lens.tokens)
    mean = cache["blocks.0.hook_mlp_out"][lens.mask].mean(dim=0)
    hook = ("blocks.0.hook_mlp_out", lambda x, hook: mean.expand_as(x))
    expected = model.run_with_hooks(torch.as_tensor(words.tokens), fwd_hooks=[hook])
    found = logits(trained, Removal(["L0 mlp"], "mean"), words, reference)
    torch.testing.assert_close(found, expected)


def test_another_words_output_is_put_in(trained: Run) -> None:
    """All heads and MLPs of the last layer from a word that begins alike: only positions count."""
    vocabulary = trained.language.vocabulary
    words, other = vocabulary.words([("a", "b")]), vocabulary.words([("b", "b", "b")])
    model = trained.model()
    _, cache = model.run_with_cache(torch.as_tensor(other.tokens))
    hooks = [
        (name, lambda x, hook, name=name: cache[name][:, : x.shape[1]])
        for name in ("blocks.1.attn.hook_z", "blocks.1.hook_mlp_out")
    ]
    expected = model.run_with_hooks(torch.as_tensor(words.tokens), fwd_hooks=hooks)
    away = [part for part in parts_of(model) if part.startswith("L1")]
    found = logits(trained, Removal(away, "resample"), words, other)
    torch.testing.assert_close(found, expected)
    alone = logits(trained, Removal(away, "resample"), other, words)  # no word is as long
    torch.testing.assert_close(alone, model(torch.as_tensor(other.tokens)))


@pytest.mark.parametrize("method", ["mean", "zero"])
def test_one_head_is_what_the_page_of_heads_says(trained: Run, method: Ablation) -> None:
    model, vocabulary = trained.model(), trained.language.vocabulary
    words = vocabulary.words([WORD, ("a", "b")])
    lens = WordTensors.of(words)
    metric = logit_at(END_ID, model.verdict_positions(lens.last))
    table = ablate(model, lens.tokens, lens.mask, metric, method)
    wanted = table[table["part"] == "L0H1"]["after"].to_numpy()
    found = metric(logits(trained, Removal(["L0H1"], method), words, words))
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-5)


@pytest.mark.parametrize("method", ["mean", "zero", "resample"])
def test_a_part_is_all_the_edges_that_it_writes_to(trained: Run, method: Ablation) -> None:
    model, vocabulary = trained.model(), trained.language.vocabulary
    words = vocabulary.words([WORD, ("a", "b")])
    reference = vocabulary.words([("a", "a", "b"), ("a", "b", "b", "b"), ("b", "a")])
    for part in ("L0H1", "L1H0", "L0 mlp"):
        edges = [edge for edge in edges_of(model, trained) if edge.startswith(f"{part} -> ")]
        by_edges = logits(trained, Removal(edges, method), words, reference)
        by_part = logits(trained, Removal([part], method), words, reference)
        torch.testing.assert_close(by_edges, by_part, rtol=0, atol=1e-4)
        both = logits(trained, Removal([part, edges[0]], method), words, reference)
        torch.testing.assert_close(both, by_part, rtol=0, atol=1e-4)


def test_one_edge_by_hand(trained: Run) -> None:
    """What the first MLP wrote is missing at the logits alone."""
    model, words = trained.model(), trained.language.vocabulary.words([WORD])
    tokens = torch.as_tensor(words.tokens)
    _, cache = model.run_with_cache(tokens)
    hook = ("blocks.1.hook_resid_post", lambda x, hook: x - cache["blocks.0.hook_mlp_out"])
    expected = model.run_with_hooks(tokens, fwd_hooks=[hook])
    found = logits(trained, Removal(["L0 mlp -> logits"], "zero"), words, words)
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, model(tokens))


def test_where_the_stream_is_no_sum_there_are_no_edges(tmp_path: Path) -> None:
    model = ModelConfig(n_layers=1, n_heads=2, d_model=8, d_mlp=8, norm_placement="post")
    run = Run.create(tmp_path / "post", tiny_config(model=model, steps=1))
    train(run, "cpu")
    assert edges_of(run.model(), run) == []
    with pytest.raises(UserError, match="unknown head, MLP or edge"):
        _removal_of(run.model(), run, ["embed -> logits"], "mean")


def test_random_sets_are_of_the_same_kinds(trained: Run) -> None:
    there = parts_of(trained.model())
    one = _right_without(trained.model(), trained, Removal(["embed -> L1H0.q"]))
    drawn = set(one[one["of"] == RANDOM]["parts"])
    assert len(drawn) == broken.DRAWS
    assert drawn < set(edges_of(trained.model(), trained)) - {"embed -> L1H0.q"}
    away = ["L0H1", "L1H0", "L0 mlp"]
    table = _right_without(trained.model(), trained, Removal(away))
    sets = [set(parts.split(" + ")) for parts in table[table["of"] == RANDOM]["parts"].unique()]
    heads = [part for part in there if "H" in part]
    every = [{*pair, mlp} for pair in combinations(heads, 2) for mlp in ("L0 mlp", "L1 mlp")]
    assert len(sets) == min(len(every) - 1, broken.DRAWS)
    assert all(each in every and each != set(away) for each in sets)
    counts = table.groupby("words")["count"].unique()
    assert all(len(each) == 1 for each in counts)  # the same words for all


def test_what_is_lost_is_counted_word_by_word(trained: Run) -> None:
    """Members and others count half each, however many there are."""
    table = _right_without(trained.model(), trained, Removal(["L0H1"], "zero"))
    shares = _balanced(table).set_index(["of", "parts"])["right"]
    for (of, parts), own in table.groupby(["of", "parts"]):
        (lost,) = own["lost"].unique()
        assert lost == pytest.approx(shares[AS_IT_IS, ""] - shares[of, parts])
        assert own["lost_low"].iloc[0] <= lost <= own["lost_high"].iloc[0]


def test_what_is_lost_of_all_or_of_none_still_has_an_interval() -> None:
    """Resampling shows no scatter there. And how many members are drawn is no chance: were they
    drawn with the others, half of all might be anything from a quarter to three."""
    assert broken._mean(np.ones(9)) == (1.0, *wilson(9, 9))
    assert broken._mean(np.zeros(9)) == (0.0, *wilson(0, 9))
    value, low, high = weighted_sum((0.5, broken._mean(np.ones(9))), (0.5, (0.0, 0.0, 0.1)))
    assert (value, high) == (0.5, pytest.approx(0.55))
    assert low == pytest.approx(wilson(9, 9)[0] / 2)


def test_what_cannot_be_taken_away_is_refused(trained: Run) -> None:
    with pytest.raises(UserError, match="unknown head, MLP or edge 'L9H9': choose one of L0H0"):
        _removal_of(trained.model(), trained, ["L9H9"], "mean")


def test_a_network_without_heads_is_refused(tmp_path: Path) -> None:
    config = tiny_config(model=ModelConfig("lstm", n_layers=1, d_model=8))
    run = Run.create(tmp_path / "lstm", config)
    with pytest.raises(UserError, match="lstm has no attention heads"):
        answer(run, "ablation", Options(("L0H1",)))


@pytest.mark.slow
def test_the_command_and_the_page_say_the_same(
    trained: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _right_without(trained.model(), trained, Removal(["L0H1"], "zero"))
    command = ["analyse", str(trained.path), "ablation"]
    assert main(command) == 2
    assert "nothing is taken away: name it" in capsys.readouterr().err
    assert main([*command, "--off", "L0H1", "--ablation", "zero"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    compared = QUESTION.headline(Answer(table)).set_index("of")["value"]
    assert compared[BROKEN] == _balanced(table).set_index("of").loc[BROKEN, "right"]
    assert compared[RANDOM] == _balanced(table).set_index("of").loc[RANDOM, "right"].mean()
    found = fresh_answer(trained, broken.QUESTION, Options(("L0H1",), "zero"))
    assert " ".join(found.sentence.split()) in printed
    assert len(_balanced(table)) == printed.count("random parts ") + 2
    monkeypatch.setattr(sys, "argv", ["app.py", str(trained.path.parent)])
    script = 'from dashboard.pages import pages\npages()["break"].draw()'
    page = AppTest.from_string(script, default_timeout=60)
    page.query_params["broken_by"] = "zero"
    page.query_params["off_of_2x2"] = "L0H1"
    page.query_params["edges_off_of_2x2"] = ["L0H0 -> L1H1.v", "embed -> logits"]
    away = ("L0H1", "L0H0 -> L1H1.v", "embed -> logits")
    answer(trained, "ablation", Options(away, "zero"))  # the page would compute it in a thread
    page.run()
    assert not page.exception
    assert not page.error
    said = [plainly(each.value) for each in page.markdown]
    both = fresh_answer(trained, broken.QUESTION, Options(away, "zero"))
    assert any(both.verdict.short in text for text in said)
    assert any(text.startswith("As it is, the model says: **") for text in said)
