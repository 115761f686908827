"""Interventions on planted models, the book-keeping of the table, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config
from planted import counter
from torch import nn
from transformer_lens.hook_points import HookPoint

from analyses.answers import Answer
from analyses.charts.interventions import charts
from analyses.questions.inside.intervention import changed, changes
from analyses.questions.inside.interventions import (
    QUESTION,
    Options,
    _erased,
    analyse,
    main_variable,
)
from analyses.questions.trials.erasing import _asked_words, _judge, erasure
from analyses.questions.trials.exchanging import ARBITRARY, exchange_sites, planned
from analyses.questions.trials.last_blocks import LastBlocks
from analyses.questions.trials.prefixes import Prefixes
from analyses.questions.trials.steering import RANDOM, _reach, steering, steering_refusal
from interp.model import sites_of
from models.base import LanguageModel
from models.errors import UserError
from models.languages import BOS_ID, END_ID, Vocabulary
from models.languages.registry import language
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train

WIDTH = 16
DIFFERENCE, LATER, BEGIN, JUNK = 0, 1, 2, slice(3, WIDTH)


class Sum(nn.Module):
    """A block that sums its input over the word so far, or averages it."""

    def __init__(self, averages: bool) -> None:
        super().__init__()
        self.averages = averages
        self.hook_resid_pre, self.hook_resid_post = HookPoint(), HookPoint()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.hook_resid_pre(x).cumsum(dim=1)
        if self.averages:
            total = total / torch.arange(1, x.shape[1] + 1)[:, None]
        return self.hook_resid_post(total)


class Tally(LanguageModel):
    """Holds a-b in one direction, as a number or as an average, and ends a word where it is 0.

    The other directions hold how many b there were, BOS, and noise that nothing reads.
    """

    def __init__(self, averages: bool) -> None:
        super().__init__(ModelConfig(n_layers=1, d_model=WIDTH, n_heads=1), Vocabulary(("a", "b")))
        self.blocks = nn.ModuleList([Sum(averages)])
        noise = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))
        noise[:, :3] = 0
        a, b = self.vocabulary.ids["a"], self.vocabulary.ids["b"]
        noise[a, DIFFERENCE], noise[b, DIFFERENCE], noise[b, LATER] = 1, -1, 1
        noise[BOS_ID, BEGIN] = 1
        self.register_buffer("table", noise)
        self.averages = averages
        self.setup()

    @property
    def device(self) -> torch.device:
        return self.get_buffer("table").device

    def logits(self, tokens: torch.Tensor, offsets: torch.Tensor | None) -> torch.Tensor:
        x = self.blocks[0](self.get_buffer("table")[tokens])
        unit = x.new_ones(x.shape[1])
        if self.averages:
            unit = 1 / torch.arange(1, x.shape[1] + 1)
        first = torch.arange(x.shape[1]) == 0
        logits = x.new_full((*tokens.shape, 4), -1.0)
        logits[..., self.vocabulary.ids["a"]] = unit / 2 - x[..., LATER]
        logits[..., self.vocabulary.ids["b"]] = x[..., DIFFERENCE] - unit / 2
        logits[..., END_ID] = unit / 2 - x[..., DIFFERENCE].abs() - 2.0 * first
        return logits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of anbn up to n = 12, for its language and its window alone."""
    return Run.create(tmp_path_factory.mktemp("planted") / "run", tiny_config(max_n=12))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Answer]:
    """A tiny model that learned nothing yet: what is asked of it is the book-keeping."""
    run = Run.create(tmp_path_factory.mktemp("interventions") / "run", tiny_config(max_n=8))
    train(run, "cpu")
    return run, analyse(run, Options(words=24, pairs=16))


def by(table: pd.DataFrame, measure: str, *index: str) -> pd.Series[float]:
    return table[table["measure"] == measure].set_index(list(index))["value"]


@pytest.mark.parametrize("averages", [False, True])
def test_a_planted_counter_moves_the_end_by_exactly_k(run: Run, averages: bool) -> None:
    """As a number where it is a number, in proportion where it is an average; else not."""
    exact = by(steering(run, Tally(averages)), "moved by k", "site", "method", "amount")
    right, wrong = "added", "added in proportion"
    if averages:
        right, wrong = wrong, right
    there = exact["L0 resid_post"]
    assert sorted(there[right].index) == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    assert (there[right] == 1).all()
    assert (there["state of another word"] == 1).all()
    assert there[wrong].mean() < 0.8
    assert there[RANDOM[right]].mean() < 0.2


def test_the_shift_is_that_of_the_words_that_ended(run: Run) -> None:
    table = steering(run, Tally(False))
    shift = by(table, "shift", "site", "method", "amount")["L0 resid_post"]["added"]
    assert shift.to_dict() == {k: k for k in shift.index}
    cases = len(range(6, 8))  # n with n - 5 and n + 5 in the window
    assert set(table.loc[table["measure"] == "moved by k", "words"]) == {cases // 2}
    never = Tally(False)
    never.get_buffer("table")[:, DIFFERENCE] = 0
    never.get_buffer("table")[never.vocabulary.ids["a"], DIFFERENCE] = 1  # b takes nothing off
    table = steering(run, never)
    added = table[(table["method"] == "added") & (table["site"] == "L0 resid_post")]
    assert by(added, "moved by k", "amount").eq(0).all()
    assert by(added, "shift", "amount").isna().all()
    assert added.loc[added["measure"] == "shift", "words"].eq(0).all()


def test_last_blocks_say_where_the_last_block_is_and_what_it_lacks() -> None:
    abc = language("anbncn")
    words = LastBlocks.of(abc, np.array([1, 2]), 1)
    assert [abc.vocabulary.decode(row) for row in words.tokens.tolist()] == [
        ("<bos>", "a", "b", "c", "c", "<end>", "<end>", "<end>"),
        ("<bos>", "a", "a", "b", "b", "c", "c", "c"),
    ]
    assert words.last.nonzero().tolist() == [[0, 3], [0, 4], [1, 5], [1, 6], [1, 7]]
    assert words.difference[words.last].tolist() == [0, -1, 1, 0, -1]
    logits = torch.full((4, 8, 5), -1.0)
    logits[0, 1, END_ID] = logits[0, 4, END_ID] = 1  # the first is before the last block
    logits[1, 5, END_ID] = logits[1, 7, END_ID] = 1
    logits[3, 6, END_ID] = 1
    np.testing.assert_equal(words.ends(logits), [[2, 1], [np.nan, 2]])


def test_erasing_the_planted_counter_ruins_it_and_erasing_noise_does_not(run: Run) -> None:
    model = Tally(False)
    table = erasure(run, model, 60, 0, lambda site: None)
    there = by(table, "words right", "site", "variable", "method")["L0 resid_post"]["a-b"]
    assert there["none"] == 1
    assert there["LEACE"] == 0
    words = _asked_words(run, 30, 0)
    assert words.labels.all()

    def without_noise(x: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.cat([x[..., :3], 0 * x[..., JUNK]], dim=-1)

    def without_the_b(x: torch.Tensor, hook: object) -> torch.Tensor:
        return x * (torch.arange(WIDTH) != LATER)

    score = _judge(run, model, words)
    assert score(("blocks.0.hook_resid_post", without_noise)).all()
    assert not score(("blocks.0.hook_resid_post", without_the_b)).any()


def test_the_probe_finds_the_variable_before_and_not_after(run: Run) -> None:
    table = erasure(run, Tally(False), 60, 0, lambda site: None)
    probe = by(table, "probe R2", "site", "variable", "method")["L0 resid_post"]
    assert (probe[:, "none"] > 0.95).all()
    assert (probe[:, "LEACE"] < 0.1).all()
    changed_by = by(table, "changed", "site", "variable", "method")["L0 resid_post"]["a-b"]
    assert changed_by["none"] == 0
    assert 0 < changed_by["LEACE"] < 1


def test_exchange_sites_end_where_the_logits_are_read(answered: tuple[Run, Answer]) -> None:
    model = counter().model
    assert exchange_sites(model) == {
        "embed": "blocks.0.hook_resid_pre",
        "L0 resid_mid": "blocks.0.hook_resid_mid",
        "L0 resid_post": "blocks.0.hook_resid_post",
        "L1 resid_mid": "blocks.1.hook_resid_mid",
    }
    assert list(sites_of(model)) == [*exchange_sites(model), "L1 resid_post"]


def test_the_table_has_every_site_variable_and_method(answered: tuple[Run, Answer]) -> None:
    run, result = answered
    table, sites = result.table, list(sites_of(run.model()))
    kinds = table[table["measure"] != "loss recovered"].dropna(subset=["low"])
    key = ["model", "experiment", "site", "variable", "method", "amount", "measure", "split"]
    assert not table.duplicated(key).any()
    erased = table[table["measure"] == "words right"]
    assert len(erased) == 2 * len(sites) * len(run.language.main_variables) * 4
    assert list(dict.fromkeys(erased["site"])) == sites
    gaps = erased.set_index(["model", "site", "variable", "method"])
    by_hand = (
        gaps["value"]
        - gaps["value"]
        .xs("LEACE", level="method")
        .reindex(gaps.index.droplevel("method"))
        .to_numpy()
    )
    assert gaps["gap"].tolist() == pytest.approx(by_hand.tolist())
    assert (gaps["gap_low"] <= gaps["gap"] + 1e-9).all()
    ks = [k for k in range(-3, 4) if k]
    moved = table[table["measure"] == "moved by k"]
    assert len(moved) == len(sites) * 5 * len(ks)
    assert set(moved["amount"]) == set(ks)
    models, found = {"trained": run.model(), "untrained": run.untrained()}, Prefixes.of(run, 0)
    assert found is not None
    exchanged = table[(table["experiment"] == "interchange") & (table["split"] == "score")]
    rows = 0
    for group, name, method in planned(run, found, models):
        ranks = 2 if "here" in group else 1
        methods = 2 + 2 * ranks if (name, method) == ("trained", "DAS") else ranks
        rows += len(group) * methods * len(exchange_sites(models[name], group))
    assert len(exchanged) == rows
    assert set(exchanged.loc[exchanged["model"] == "untrained", "method"]) == {"DAS"}
    assert ARBITRARY in set(exchanged["method"])
    assert set(table["split"]) == {"all", "choose", "score", "longer"}
    assert set(table["model"]) == {"trained", "untrained"}
    assert (kinds["low"] <= kinds["value"] + 1e-9).all()
    assert (kinds["value"] <= kinds["high"] + 1e-9).all()
    assert (table["units"] > 0)[table["measure"] != "shift"].all()
    assert set(charts(result)) == {"erasure", "steering", "states", "interchange", "scrubbing"}


def test_the_findings_are_those_of_the_table(answered: tuple[Run, Answer]) -> None:
    table, found = answered[1].table, answered[1].findings
    main = found["erasure"]["a-b"]
    trained = table[table["model"] == "trained"]
    right = by(trained, "words right", "variable", "site", "method")["a-b"][main["site"]]
    assert {name: main[name] for name in right.index} == right.to_dict()
    wide = trained[(trained["measure"] == "words right") & (trained["variable"] == "a-b")]
    wide = wide.pivot(index="site", columns="method", values="choice")
    harm = wide["random directions"] - wide["LEACE"]
    assert harm[main["site"]] == harm.max()
    moved = found["steering"]
    exact = by(table, "moved by k", "site", "method", "amount")[moved["site"]][moved["method"]]
    assert moved["value"] == pytest.approx(exact.mean())
    assert moved["by_k"] == {str(k): value for k, value in exact.items()}
    chosen = table[(table["measure"] == "moved by k") & table["method"].isin(RANDOM)]
    choice = chosen.groupby(["site", "method"])["choice"].mean()
    assert choice[moved["site"], moved["method"]] == choice.max()
    assert found["refused"] == []


def test_erasing_is_reported_where_it_hurts_most_beyond_random_directions() -> None:
    """By the words that choose: of the others another site would look worse."""
    made_up = {"calm": (0.9, 1.0), "needed": (0.2, 0.9), "fragile": (0.0, 0.0)}
    others = {"calm": (0.1, 1.0), "needed": (0.4, 0.8), "fragile": (0.0, 0.0)}
    rows = [
        {"site": site, "method": method, "measure": "words right", "choice": choice, "value": value}
        for site in made_up
        for method, choice, value in zip(
            ("LEACE", "random directions"), made_up[site], others[site], strict=True
        )
    ]
    rows += [{**row, "method": "random readout"} for row in rows if row["method"] != "LEACE"]
    gap = {"gap_low": 0.1, "gap_high": 0.9, "words": 9}
    rows = [{**row, **gap, "gap": row["value"] - 0.4} for row in rows]
    rows[-2]["gap"] = 0.3  # at the site that is needed a random readout does more
    for method, value in (("none", 0.99), ("LEACE", 0.0)):
        rows.append({"site": "needed", "method": method, "measure": "probe R2", "value": value})
    found = _erased(pd.DataFrame(rows))
    assert found["site"] == "needed"
    assert (found["LEACE"], found["probe"], found["probe_erased"]) == (0.4, 0.99, 0.0)
    assert (found["gap"], found["gap_low"], found["words"]) == (0.3, 0.1, 9)


def erased(low: float, untrained: float = 0.0, words: int = 30) -> Answer:
    gone = {"site": "L0 mlp_out", "none": 1.0, "LEACE": 0.4, "random directions": 0.9}
    gone |= {"random readout": 0.8, "gap": 0.4, "gap_low": low, "gap_high": 0.6, "words": words}
    gone |= {"untrained": untrained}
    nothing = dict.fromkeys(("interchange", "scrubbing", "steering", "state"))
    return Answer(pd.DataFrame(), findings={"main": "a-b", "erasure": {"a-b": gone}, **nothing})


@pytest.mark.parametrize(
    ("asked", "grade"),
    [
        (erased(0.2), "holds"),
        (erased(-0.1), "no better than its controls"),  # a random readout costs as much
        (erased(0.2, untrained=0.3), "no better than its controls"),
        (erased(0.2, words=5), "not weighed"),
    ],
)
def test_erasing_is_told_beyond_random_erasures_and_the_untrained_network(
    asked: Answer, grade: str
) -> None:
    (claim,) = QUESTION.claims(asked)
    assert claim.grade == grade
    assert "with a-b erased 40%" in claim.sentence


def test_exchange_and_move_are_told_before_the_erasure(answered: tuple[Run, Answer]) -> None:
    """Of few words, no move of a counter is told, but that of a state."""
    found = answered[1].findings
    assert found["steering"]["words"] == 1
    moved = {"value": 0.9, "low": 0.8, "high": 1.0, "words": 6, "random": 0.2}
    enough = replace(answered[1], findings={**found, "steering": found["steering"] | moved})
    for asked, first in ((answered[1], "With"), (enough, "When")):
        made = QUESTION.claims(asked)
        assert [claim.finding.split()[0] for claim in made] == ["Exchanging", first, "Erasing"]
    assert made[1].grade == "holds"
    moved = found["steering"] | moved | {"random": 0.85}
    as_good = replace(answered[1], findings={**found, "steering": moved})
    assert QUESTION.claims(as_good)[1].grade == "no better than its controls"


def test_a_kept_half_of_the_words_is_not_that_to_get_right(run: Run) -> None:
    assert _asked_words(run, 8, 0).words.ids.tolist() != _asked_words(run, 8, 1).words.ids.tolist()
    assert main_variable(language("anbncn")) == "b-c"
    assert language("dieren").main_variables == ["state"]


@pytest.mark.parametrize(
    ("changes_", "reason"),
    [
        ({"language": "dyck1"}, "has no two blocks"),
        ({"max_n": 2}, "too early to move an end"),
        (
            {
                "objective": "verdict",
                "model": ModelConfig(n_layers=1, n_heads=2, d_model=8, mask="bidirectional"),
            },
            "is an encoder",
        ),
    ],
)
def test_where_no_end_moves_the_reason_is_said(
    tmp_path: Path, changes_: dict[str, object], reason: str
) -> None:
    run = Run.create(tmp_path / "run", tiny_config(**changes_))
    assert reason in str(steering_refusal(run))
    assert "\n" not in str(steering_refusal(run))


def test_the_furthest_k_leaves_both_ends_in_the_window(tmp_path: Path) -> None:
    reaches = {}
    for most in (3, 4, 8, 25):
        run = Run.create(tmp_path / str(most), tiny_config(max_n=most))
        reaches[most] = _reach(run)
    assert reaches == {3: 1, 4: 1, 8: 3, 25: 5}


@pytest.mark.parametrize("wish", [{"words": 7}, {"pairs": 0}])
def test_bad_wishes_are_refused(answered: tuple[Run, Answer], wish: dict[str, int]) -> None:
    with pytest.raises(UserError, match="must be at least 8"):
        analyse(answered[0], Options(**wish))


def test_languages_with_few_prefixes_are_answered_or_refused(tmp_path: Path) -> None:
    """Where DAS has no cases its controls have no rows; where nothing varies one line says so."""
    few = Run.create(tmp_path / "few", tiny_config(language="tomita2", max_n=8, steps=1))
    train(few, "cpu")
    table = analyse(few, Options(words=24, pairs=8, rank=40)).table
    exchanged = table[table["experiment"] == "interchange"]
    assert set(exchanged["measure"]) == {"next symbols"}
    assert exchanged["amount"].max() <= few.config.model.d_model
    none = Run.create(tmp_path / "none", tiny_config(language="tomita1", max_n=8, steps=1))
    train(none, "cpu")
    with pytest.raises(UserError, match=r"^no hidden variable of tomita1 varies [^\n]*$"):
        analyse(none, Options(words=24, pairs=8))


def test_two_prefixes_leave_none_to_score_an_exchange(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "two", tiny_config(language="tomita2", max_n=2, steps=1))
    train(run, "cpu")
    table = analyse(run, Options(words=24, pairs=8)).table
    assert "interchange" not in set(table["experiment"])


def test_one_word_with_its_counter_moved_ends_later(run: Run) -> None:
    """The sum of the planted model, on a word whose last block goes on too long."""
    word = (*"aaaa", *"bbbbbbb")

    def ends(table: pd.DataFrame) -> dict[str, list[int]]:
        said = table[(table["token"] == "<end>") & (table["probability"] > 0.5)]
        return {str(name): rows["position"].tolist() for name, rows in said.groupby("run")}

    for averages, change in ((False, "add"), (True, "add in proportion")):
        model = Tally(averages)
        table = changed(model, run, "L0 resid_post", "a-b", change, 2, word)
        assert ends(table) == {"as it is": [8], "changed": [10]}
        assert len(table) == 2 * 12 * 3
        erased = changed(model, run, "L0 resid_post", "a-b", "erase", 0, word)
        assert ends(erased).get("changed") != [8]
    assert changes(run, "a-b") == ["add in proportion", "add", "erase"]
    assert changes(run, "block") == ["erase"]
