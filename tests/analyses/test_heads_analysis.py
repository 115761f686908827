"""The heads' analysis on a run of a second: what its numbers are means of, and what it says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config

from analyses.questions import heads
from analyses.words import WordTensors, sample_window
from interp.causal.ablation import ablate
from interp.causal.metrics import logit_at
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.types import TYPES, head_types
from models.config import ModelConfig
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import Run
from models.training.loop import train

OPTIONS = heads.Options(words=12, members=3)
MODEL = ModelConfig(n_layers=2, n_heads=2, d_model=8, d_mlp=12)


@pytest.fixture(scope="module", params=["decoder", "encoder"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    mask = {"decoder": "causal", "encoder": "bidirectional"}[request.param]
    model = ModelConfig(**{**MODEL.__dict__, "mask": mask})
    objective = "verdict" if model.sees_ahead else "next-symbols"
    config = tiny_config(model=model, objective=objective, steps=3, max_n=6)
    made = Run.create(tmp_path_factory.mktemp("heads") / request.param, config)
    train(made, "cpu")
    return made


@pytest.fixture(scope="module")
def table(run: Run) -> pd.DataFrame:
    return heads.analyse(run, OPTIONS).table


@pytest.mark.slow
def test_every_measure_of_both_models(run: Run, table: pd.DataFrame) -> None:
    measures = [
        *(f"accuracy lost, {method} ablation" for method in ("mean", "zero", "resample")),
        *("direct logit, members", "direct logit, others"),
        *(f"attention, {name}" for name in TYPES),
        heads.LOOK,
    ]
    for _, rows in table.groupby("model"):
        assert rows["measure"].unique().tolist() == measures
    assert table["model"].unique().tolist() == ["trained", "untrained"]
    given = table.dropna(subset="value")
    assert (given["low"] <= given["value"] + 1e-9).all()
    assert (given["value"] <= given["high"] + 1e-9).all()
    assert heads.analyse(run, OPTIONS).table.equals(table)


@pytest.mark.parametrize("method", ["mean", "zero", "resample"])
def test_accuracy_lost_is_a_mean_over_words(run: Run, table: pd.DataFrame, method: str) -> None:
    sample = sample_window(run, 12, 0)
    words, model = WordTensors.of(sample.words), run.model()
    metric = logit_at(END_ID, model.verdict_positions(words.last))
    ablated = ablate(model, words.tokens, words.mask, metric, method)
    rows = table.query(f"model == 'trained' and measure == 'accuracy lost, {method} ablation'")
    for row in rows.itertuples():
        lost, missing = [], 0
        for one in ablated.query(f"layer == {row.layer} and head == {row.head}").itertuples():
            truth = sample.labels[one.word]
            if np.isnan(one.after):
                missing += 1
            else:
                lost.append(int((one.before > 0) == truth) - int((one.after > 0) == truth))
        assert row.value == pytest.approx(np.mean(lost))
        assert (row.words, row.undefined) == (len(lost), missing)
    assert len(rows) == 4


@pytest.mark.parametrize("model", ["trained", "untrained"])
def test_types_are_means_over_the_words_that_have_them(
    run: Run, table: pd.DataFrame, model: str
) -> None:
    words = WordTensors.of(sample_window(run, 12, 0).words)
    viewed = run.model() if model == "trained" else run.untrained()
    types = head_types(viewed, words.tokens, words.mask)
    for name in TYPES:
        rows = table[(table["model"] == model) & (table["measure"] == f"attention, {name}")]
        for row in rows.itertuples():
            of_head = types.query(f"layer == {row.layer} and head == {row.head} and type == @name")
            assert row.value == pytest.approx(of_head["score"].dropna().mean())
            assert row.uniform == pytest.approx(of_head["uniform"].dropna().mean())
            assert row.undefined == of_head["score"].isna().sum()
    assert table[~table["measure"].str.startswith("attention, ")]["uniform"].isna().all()


@pytest.mark.parametrize("model", ["trained", "untrained"])
def test_attention_is_held_against_the_effect_on_the_verdict(
    run: Run, table: pd.DataFrame, model: str
) -> None:
    viewed = run.model() if model == "trained" else run.untrained()
    found: dict[str, list[float]] = {}
    for word, changed in heads.changed_words(run, 3, 0):
        at = 0 if run.config.model.sees_ahead else len(word) - 1
        both = attention_and_effect(viewed, word, changed, logit_at(END_ID, at), at)
        for part, rows in both.groupby("part"):
            value = rank_correlation(rows["attention"].to_numpy(), rows["effect"].to_numpy())
            found.setdefault(part, []).append(value)
    rows = table[(table["model"] == model) & (table["measure"] == heads.LOOK)]
    assert rows["part"].tolist() == ["L0H0", "L0H1", "L1H0", "L1H1", "rollout", "flow"]
    for row in rows.itertuples():
        assert row.value == pytest.approx(np.nanmean(found[row.part]))
        assert row.undefined == np.isnan(found[row.part]).sum()
        assert row.words + row.undefined == 3


def test_every_symbol_is_changed_in_turn(run: Run) -> None:
    pairs = heads.changed_words(run, 40, 0)
    assert len({tuple(word.tolist()) for word, _ in pairs}) == len(pairs) == 5  # n = 2 to 6
    for word, changed in pairs:
        symbols = run.language.vocabulary.decode(word[1:].numpy())
        assert run.language.contains(symbols)
        assert 4 <= len(symbols) <= 20
        differs = changed != word
        assert torch.equal(differs[:, 1:], torch.eye(len(symbols), dtype=torch.bool))
        assert not differs[:, 0].any()
        assert set(changed[:, 1:].unique().tolist()) == {2, 3}


def test_a_change_may_be_to_any_other_symbol(tmp_path: object) -> None:
    run = Run.create(
        tmp_path / "run", tiny_config(language="dieren", max_n=20, objective="verdict")
    )
    changes = {
        (int(word[i + 1]), int(row[i + 1]))
        for word, changed in heads.changed_words(run, 80, 1)
        for i, row in enumerate(changed)
    }
    size = len(run.language.vocabulary.symbols)
    assert len(changes) == size * (size - 1)
    assert all(old != new for old, new in changes)


@pytest.mark.slow
def test_a_window_of_short_words_has_nothing_to_hold_against(tmp_path: object) -> None:
    run = Run.create(tmp_path / "run", tiny_config(max_n=1))  # a b alone
    train(run, "cpu")
    assert heads.changed_words(run, 3, 0) == []
    result = heads.analyse(run, OPTIONS)
    assert heads.LOOK not in set(result.table["measure"])
    assert "attention is not compared with effects" in result.sentence
    assert heads.chart(result).to_dict()["$schema"]


def test_a_mean_leaves_out_what_is_undefined() -> None:
    nan = np.nan
    wide = pd.DataFrame({"L0H0": [1.0, 2.0, 3.0], "L0H1": [nan, 4.0, 2.0], "flow": [nan] * 3})
    summary = heads._summary(wide, "m")
    assert summary["value"].tolist() == pytest.approx([2.0, 3.0, nan], nan_ok=True)
    assert summary["words"].tolist() == [3, 2, 0]
    assert summary["undefined"].tolist() == [0, 1, 3]
    assert summary["layer"].tolist() == [0, 0, -1]
    assert summary["head"].tolist() == [0, 1, -1]
    assert summary["low"].iloc[1] >= 2
    assert summary["high"].iloc[1] <= 4


def rows(measure: str, model: str, **values: tuple[float, float, float]) -> pd.DataFrame:
    """Rows of a table: part = (value, low, uniform)."""
    numbers = {part: int(part[-1]) if part.startswith("L") else -1 for part in values}
    return pd.DataFrame(
        {
            "model": model,
            "measure": measure,
            "part": list(values),
            "layer": [0 if n >= 0 else -1 for n in numbers.values()],
            "head": list(numbers.values()),
            "value": [v for v, _, _ in values.values()],
            "low": [low for _, low, _ in values.values()],
            "high": 1.0,
            "uniform": [u for _, _, u in values.values()],
            "words": 2,
            "undefined": 1,
        }
    )


def test_findings_by_hand() -> None:
    none = np.nan
    lost = rows(
        "accuracy lost, mean ablation", "trained", L0H0=(0.5, 0.4, none), L0H1=(0.1, 0, none)
    )
    bos = [
        rows("attention, BOS", "trained", L0H0=(0.7, 0, 0.2), L0H1=(0.6, 0, 0.2)),
        rows("attention, BOS", "untrained", L0H0=(0.6, 0, 0.2), L0H1=(0.1, 0, 0.2)),
    ]
    looks = {"L0H0": (0.3, -0.1, none), "L0H1": (0.9, 0.8, none), "flow": (0.5, 0.0, none)}
    look = [
        rows(heads.LOOK, "trained", **looks),
        rows(heads.LOOK, "untrained", L0H0=(0.3, 0.2, none), L0H1=(0.9, 0.8, none)),
    ]
    sentence, found = heads.findings(pd.concat([lost, *bos, *look]))
    assert found["needed"] == ["L0H0"]
    assert found["clearest_type"] == pytest.approx(
        {"part": "L0H1", "type": "BOS", "trained": 0.6, "untrained": 0.1, "uniform": 0.2}
    )
    assert found["attention_against_effect"] == {"L0H0": 0.3, "L0H1": 0.9, "flow": 0.5}
    assert sentence == (
        "Without L0H0 (mean ablation), 50.0% of the verdicts on 2 words are lost [40.0%, 100.0%]; "
        "1 of 2 heads are needed (L0H0). The head with the clearest type is L0H1: 60% of its "
        "attention is on BOS (untrained 10%, even attention 20%). 1 of 2 heads look where it "
        "matters (L0H1), in the untrained model 2: the 95% interval of the rank correlation "
        "between their attention and its effect lies above 0 (for comparison, flow 0.50). It is "
        "undefined in 4 of 12 cases (a head on a word, trained or untrained)."
    )


@pytest.mark.parametrize("options", [{"words": 0}, {"members": 0}])
def test_no_words_is_a_readable_mistake(trained: Run, options: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"^--(words|members) is 0: it must be at least 1$"):
        heads.analyse(trained, heads.Options(**options))
