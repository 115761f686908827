"""Three measures of runs by hand, as commands, and what cannot be asked."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import TINY, tiny_config
from scipy.stats import spearmanr, t

from analyses.answers import Answer, answer
from analyses.command_line.app import main
from analyses.options.inside import Dimension
from analyses.options.parts import Cosine, Reach
from analyses.questions.inside import dimension as filled
from analyses.questions.parts import cosine as of_scores
from analyses.questions.parts.reach import (
    QUESTION,
    _reach,
    _side_by_side,
    _words_of,
    steps_by_length,
)
from analyses.studies.listing import runs_of
from interp.heads.cosine import agreement_with_cosine
from interp.heads.qk_and_ov import qk_circuit
from models.base import EmbeddingModel
from models.config import ModelConfig
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import METRICS, Run
from models.training.loop import train

KINDS = {
    "transformer": TINY,
    "lstm": replace(TINY, architecture="lstm"),
    "cnn": replace(TINY, architecture="cnn", kernel_size=3),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("reach")
    found = {}
    for name, model in KINDS.items():
        found[name] = Run.create(folder / name, tiny_config(model=model, max_n=6))
        train(found[name], "cpu")
    return found


@pytest.fixture(scope="module")
def tables(runs: dict[str, Run]) -> dict[str, pd.DataFrame]:
    return {name: _reach(run, Reach(12)) for name, run in runs.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_a_gradient_by_hand(
    kind: str, runs: dict[str, Run], tables: dict[str, pd.DataFrame]
) -> None:
    run, table = runs[kind], tables[kind]
    tokens = _words_of(run, 12, 0, 0)
    assert len(np.unique(tokens.numpy(), axis=0)) == len(tokens) == 12
    assert tokens.shape[1] == 1 + 12  # n = 6
    for name, model in (("trained", run.model()), ("untrained", run.untrained())):
        assert isinstance(model, EmbeddingModel)
        model, own = model.double(), []
        for word in tokens:
            x = model.embed(word[None]).detach().requires_grad_()
            put = [("hook_embed", lambda old, hook, x=x: x)]
            model.run_with_hooks(word[None], fwd_hooks=put)[0, -1, END_ID].backward()
            assert x.grad is not None
            own.append(x.grad[0].norm(dim=-1).flip(0)[:-1])
        rows = table[table["model"] == name]
        expected = torch.stack(own).mean(dim=0).numpy()
        assert rows["distance"].tolist() == list(range(12))
        assert rows["influence"].to_numpy() == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert (rows["low"] <= rows["influence"] + 1e-12).all()
        assert (rows["words"] == 12).all()


def test_the_steps_are_those_of_each_architecture(
    runs: dict[str, Run], tables: dict[str, pd.DataFrame]
) -> None:
    brief = pd.concat({name: _side_by_side(own).set_index("model") for name, own in tables.items()})
    layers = TINY.n_layers
    assert brief.loc[("transformer", "trained"), "path_length"] == 1
    assert brief.loc[("lstm", "trained"), "path_length"] == 11
    assert brief.loc[("lstm", "trained"), "sequential"] == 11 + layers
    assert pd.isna(brief.loc[("cnn", "trained"), "path_length"])
    assert brief.loc[("cnn", "trained"), "farthest"] == 2 * layers
    assert brief.loc[("lstm", "untrained"), "farthest"] == 11
    for (run, model), row in brief.iterrows():
        table = tables[run]
        own = table[table["model"] == model].set_index("distance")
        assert row["one_back"] == own.loc[1, "influence"]
        assert row["first"] == own.loc[11, "influence"]
        assert row["rate"] == own.loc[3, "rate"] or np.isnan(row["rate"])
        compared = QUESTION.headline(Answer(table)).set_index(["variable", "of"])["value"]
        for column in ("rate", "fit", "path_length", "sequential", "farthest"):
            value = np.nan if pd.isna(row[column]) else float(row[column])
            assert compared[column.replace("_", " "), model] == pytest.approx(value, nan_ok=True)
    found = steps_by_length(runs["lstm"]).set_index("positions")
    assert found["path length"].tolist() == [3, 7, 15, 31]
    assert found["sequential steps"].tolist() == [n - 1 + layers for n in (4, 8, 16, 32)]
    for kind, way in (("cnn", "no way leads"), ("lstm", "it is 11 steps")):
        (claim,) = QUESTION.claims(Answer(tables[kind]))
        way = f"From the first symbol to the last {way}, and"
        assert way in claim.sentence or claim.unweighed.startswith("Fewer than three places")
    assert QUESTION.chart(Answer(tables["cnn"])).to_dict()["layer"]


def test_the_dimension_is_that_of_the_activations(runs: dict[str, Run]) -> None:
    table = filled._dimension(runs["lstm"], Dimension(30))
    sites = [
        "embed",
        *(f"L{n} {part}" for n in range(TINY.n_layers) for part in ("cell", "resid_post")),
    ]
    assert table["site"].tolist() == 2 * sites
    assert table["states"].isna().all()
    rows = table.set_index(["model", "site"])
    assert rows.loc[("untrained", "embed"), "value"] == pytest.approx(1.0)  # a and b: a line
    words = filled.sample_window(runs["lstm"], 30, 0).words
    with torch.no_grad():
        _, cache = runs["lstm"].model().run_with_cache(torch.as_tensor(words.tokens))
    x = torch.cat(
        [
            states[1 : 1 + n]
            for states, n in zip(cache["blocks.0.hook_cell"], words.lengths, strict=True)
        ]
    )
    spread = np.linalg.eigvalsh(np.cov(x.double().numpy().T))
    expected = spread.sum() ** 2 / (spread**2).sum()
    assert rows.loc[("trained", "L0 cell"), "value"] == pytest.approx(expected, rel=1e-5)
    (claim,) = filled.QUESTION.claims(Answer(table))
    assert claim.value == rows["value"]["trained"].iloc[-1]
    assert claim.less == (claim.value < claim.controls["the untrained network"])
    assert filled.QUESTION.chart(Answer(table)).to_dict()["layer"]
    compared = filled.QUESTION.headline(Answer(table)).set_index(["of", "variable"])["value"]
    pd.testing.assert_series_equal(compared, rows["value"], check_names=False)


def test_a_regular_language_says_how_many_states_it_has(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "parity", tiny_config(language="parity", steps=1))
    train(run, "cpu")
    table = filled._dimension(run, Dimension(10))
    assert set(table["states"]) == {2}
    assert filled.QUESTION.claims(Answer(table))[0].notes == (
        "The minimal automaton has 2 states.",
    )


def test_scores_follow_the_cosine_as_scipy_says(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "nested", tiny_config(language="nested", steps=1, max_n=8))
    train(run, "cpu")
    table = of_scores._cosine(run, Cosine())
    model = run.model()
    assert isinstance(model, EmbeddingModel)
    read = [token for token in range(len(model.vocabulary)) if token != END_ID]
    x = model.W_E.detach().double().numpy()[read]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    scores = qk_circuit(model, 0, 1).double().numpy()[np.ix_(read, read)]
    apart = ~np.eye(len(read), dtype=bool)
    expected = spearmanr(scores[apart], (x @ x.T).round(9)[apart]).statistic
    rows = table.set_index(["model", "head"])
    assert rows.loc[("trained", "L0H1"), "correlation"] == pytest.approx(expected, abs=1e-4)
    assert rows["pairs"].tolist() == [len(read) * (len(read) - 1)] * len(rows)
    every = [
        agreement_with_cosine(qk_circuit(model, 0, h).double().numpy()[np.ix_(read, read)], x)
        for h in range(TINY.n_heads)
    ]
    made = np.mean([len(read) * f.others - (len(read) - 1) * f.without for f in every], axis=0)
    half = t.ppf(0.975, len(read) - 1) * made.std(ddof=1) / np.sqrt(len(read))
    assert TINY.n_layers == 1
    for ends in rows.loc["trained", ["mean", "mean_low", "mean_high"]].to_numpy():
        mean = np.mean([f.others for f in every])
        assert ends == pytest.approx([mean, mean - half, mean + half])
    means = of_scores.QUESTION.headline(Answer(table)).set_index("of")["value"]
    assert means["trained"] == pytest.approx(rows.loc["trained", "correlation"].mean())


def test_the_list_of_runs_says_when_each_was_flawless(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(steps=1))
    line = {"loss": 0.1, "validation_loss": 0.1, "learning_rate": 0.1}
    marks = [(1, 1.0, 0.9), (2, 0.5, 1.0), (3, 1.0, 1.0), (4, 1.0, 1.0)]
    told = [
        line | {"step": step, "exact": exact, "recognition": right, "seconds": step / 2}
        for step, exact, right in marks
    ]
    for shown, step in ((told, 3), (told[:2], None)):
        (run.path / METRICS).write_text("".join(f"{json.dumps(each)}\n" for each in shown))
        row = runs_of(tmp_path).iloc[0]
        if step is None:
            assert row[["flawless_step", "flawless_seconds"]].isna().all()
        else:
            assert (row["flawless_step"], row["flawless_seconds"]) == (step, step / 2)


@pytest.mark.parametrize("name", ["reach", "dimension", "cosine"])
def test_commands(name: str, runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", str(runs["transformer"].path), name]
    words += ["--count", "6"] if name == "reach" else []
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in said["table"]} == {"trained", "untrained"}
    assert main([*words, "--csv"]) == 0
    assert len(pd.read_csv(StringIO(capsys.readouterr().out))) == len(said["table"])
    assert main(words) == 0
    assert said["sentence"].split(" (")[0] in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_asked_says_so(runs: dict[str, Run], tmp_path: Path) -> None:
    def made(name: str, model: ModelConfig, **choices: object) -> Run:
        return Run.create(tmp_path / name, tiny_config(model=model, steps=1, **choices))

    counts = made("counts", replace(TINY, architecture="ngram", order=3))
    with pytest.raises(UserError, match="learns by counting, not by gradient"):
        answer(counts, "reach")
    with pytest.raises(UserError, match="no activations at every symbol"):
        steps_by_length(counts)
    with pytest.raises(UserError, match="no activations at every symbol"):
        answer(counts, "dimension")
    with pytest.raises(UserError, match="has no attention heads"):
        answer(runs["lstm"], "cosine")
    encoder = made("encoder", replace(TINY, mask="bidirectional"), objective="verdict")
    with pytest.raises(UserError, match="ask a causal network"):
        answer(encoder, "reach")
    with pytest.raises(UserError, match="different words of 3 symbols"):
        _words_of(runs["lstm"], 12, 3, 0)
