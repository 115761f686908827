"""Interchange, steering to a state and scrubbing in networks that hold what is known.

Each planted network reads the state off the tokens and holds it in known directions, beside noise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import tiny_config
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from analyses.questions.trials.cases import _meant, arbitrary, drawn_cases
from analyses.questions.trials.exchanging import ARBITRARY, chosen, interchange, planned
from analyses.questions.trials.findings import LONGER, MEASURES, exchange_claim, state_claim
from analyses.questions.trials.findings import exchanged as told
from analyses.questions.trials.prefixes import Prefixes, answers_of
from analyses.questions.trials.states import scrubbing, state_steering
from interp.causal.alignment import aligned, displacements, exchanged
from models.base import LanguageModel
from models.languages import BOS_ID, END_ID, FIRST_SYMBOL_ID
from models.languages.registry import language
from models.languages.regular import RegularLanguage
from models.model_config import ModelConfig
from models.runs.run import Run

NO = "no better than its controls"
WIDTH, SITE, HOOK = 12, "L0 resid_post", "blocks.0.hook_resid_post"
Held = Callable[[Tensor], Tensor]


class Passes(nn.Module):
    """A block that only shows what passes."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_resid_pre, self.hook_resid_post = HookPoint(), HookPoint()


class Known(LanguageModel):
    """Holds what ``held`` makes of the tokens in the first columns of ``turn``, and noise in the
    others; ``says`` makes logits of what is held and of the lengths so far."""

    def __init__(self, name: str, held: Held, says: Callable[[Tensor, Tensor], Tensor]) -> None:
        config = ModelConfig(n_layers=2, d_model=WIDTH, n_heads=1)
        super().__init__(config, language(name).vocabulary)
        self.blocks, self.held, self.says = nn.ModuleList([Passes(), Passes()]), held, says
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(WIDTH, WIDTH, generator=generator)
        self.register_buffer("turn", torch.linalg.qr(drawn)[0])
        noise = torch.randn(len(self.vocabulary), WIDTH, generator=generator)
        self.register_buffer("noise", noise)
        self.setup()
        self.eval()

    @property
    def device(self) -> torch.device:
        return self.get_buffer("turn").device

    def logits(self, tokens: Tensor, offsets: Tensor | None) -> Tensor:
        turn, first, second = self.get_buffer("turn"), *self.blocks
        held, noise = self.held(tokens), first.hook_resid_pre(self.get_buffer("noise")[tokens])
        x = torch.cat([held, noise[..., held.shape[-1] :]], dim=-1) @ turn.T
        x = second.hook_resid_post(second.hook_resid_pre(first.hook_resid_post(x)))
        length = torch.arange(1, x.shape[1] + 1)
        return self.says((x @ turn)[..., : held.shape[-1]], length)


def difference(tokens: Tensor) -> Tensor:
    a, b = FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + 1
    return ((tokens == a).float() - (tokens == b).float()).cumsum(dim=1)[..., None]


def last_block(d: Tensor, unit: Tensor | float) -> Tensor:
    """Logits of a^n b^n in its last block, from a - b in some unit."""
    logits = torch.full((*d.shape[:-1], 4), -1.0)
    logits[..., END_ID] = 1 - 2 * d[..., 0].abs() / unit
    logits[..., FIRST_SYMBOL_ID + 1] = 2 * d[..., 0] / unit - 1
    return logits


def value() -> Known:
    """Holds a - b as a number."""
    return Known("anbn", difference, lambda held, length: last_block(held, 1.0))


def average() -> Known:
    """Holds a - b divided by the length so far."""
    return Known(
        "anbn",
        lambda tokens: difference(tokens) / torch.arange(1, tokens.shape[1] + 1)[:, None],
        lambda held, length: last_block(held, 1 / length),
    )


def verdict() -> Known:
    """Holds only whether a - b is 0."""
    return Known(
        "anbn",
        lambda tokens: (difference(tokens) == 0).float(),
        lambda held, length: last_block(1 - held, 1.0),
    )


def two_counters() -> Known:
    """Holds how many brackets of each kind are open."""
    steps = torch.zeros(6, 2)
    steps[FIRST_SYMBOL_ID : FIRST_SYMBOL_ID + 4] = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1]])

    def says(held: Tensor, length: Tensor) -> Tensor:
        logits = torch.ones(*held.shape[:-1], 6)
        logits[..., BOS_ID] = -1
        logits[..., FIRST_SYMBOL_ID + 1 :: 2] = held - 0.5
        logits[..., END_ID] = 0.5 - held.sum(dim=-1)
        return logits

    return Known("shuffle2", lambda tokens: steps[tokens].cumsum(dim=1), says)


def machine() -> Known:
    """Holds the state of the automaton of Tomita's third language, one direction for each."""
    known = language("tomita3")
    assert isinstance(known, RegularLanguage)
    size = len(known.delta)

    def held(tokens: Tensor) -> Tensor:
        states = torch.zeros(tokens.shape, dtype=torch.long)
        for t in range(1, tokens.shape[1]):
            symbol = (tokens[:, t] - FIRST_SYMBOL_ID).clamp_min(0).numpy()
            states[:, t] = torch.as_tensor(known.delta[states[:, t - 1].numpy(), symbol])
        return nn.functional.one_hot(states, size).float()

    follow = torch.as_tensor(known._follow).float() - 0.5
    return Known("tomita3", held, lambda held, length: held @ follow)


def run_of(tmp_path: Path, name: str, **changes: object) -> Run:
    return Run.create(tmp_path / name, tiny_config(language=name, max_n=12, **changes))


def found_of(run: Run) -> Prefixes:
    found = Prefixes.of(run, 0)
    assert found is not None
    return found


def scores(table: pd.DataFrame, method: str = "DAS") -> dict[str, float]:
    """By measure the value at the site and the rank that were chosen apart."""
    rows = table[table["method"] == method]
    result = {}
    for measure, some in rows.groupby("measure"):
        site, rank = chosen(some)
        there = (some["site"] == site) & (some["amount"] == rank) & (some["split"] == "score")
        result[str(measure)] = float(some.loc[there, "value"].mean())
    return result


def asked(run: Run, model: Known, rank: int = 2, pairs: int = 96) -> pd.DataFrame:
    return interchange(run, {"trained": model}, found_of(run), pairs, rank, 0)


@pytest.mark.slow
def test_a_value_is_found_and_a_verdict_is_not_taken_for_it(tmp_path: Path) -> None:
    """One answer at one position does not tell the two networks apart; the course does."""
    run = run_of(tmp_path, "anbn")
    found = found_of(run)
    tables = {model.__name__: asked(run, model(), 1) for model in (value, verdict)}
    for name, table in tables.items():
        reached = scores(table)
        assert reached["next symbols"] > 0.9
        assert reached["course, read again"] > 0.9
        assert (reached["course, carried"] > 0.9) == (name == "value")
        assert (reached["course, carried"] < 0.2) == (name == "verdict")
        assert scores(table, "none")["course, read again"] == 0
        for control in (ARBITRARY, "random subspace"):
            assert scores(table, control)["course, read again"] < 0.3
            assert scores(table, control)["course, carried"] < 0.3
        fit, test = (
            drawn_cases(run, value(), found, part, "here", 120, 0) for part in found.parts(0)[:2]
        )
        assert fit is not None
        assert test is not None
        model = value() if name == "value" else verdict()
        at_the_end = exchanged(model, [HOOK], fit, {"test": test})
        assert at_the_end.set_index("method").loc["DAS", "value"] > 0.95


def test_the_subspace_is_the_planted_direction(tmp_path: Path) -> None:
    run, model = run_of(tmp_path, "anbn"), value()
    found = found_of(run)
    cases = drawn_cases(run, model, found, found.parts(0)[0], "read again", 192, 0)
    assert cases is not None
    basis = aligned(model, HOOK, cases, displacements(model, [HOOK], cases)[HOOK], 1)
    assert basis.norm() == pytest.approx(1, abs=1e-4)
    assert abs(float(basis[:, 0] @ model.get_buffer("turn")[:, 0])) > 0.98


@pytest.mark.slow
def test_an_average_is_carried_in_proportion(tmp_path: Path) -> None:
    reached = scores(asked(run_of(tmp_path, "anbn"), average(), 1))
    assert reached["course, carried in proportion"] > 0.95
    assert reached["course, carried"] < 0.85


@pytest.mark.slow
def test_two_variables_lie_in_subspaces_of_their_own(tmp_path: Path) -> None:
    run, model = run_of(tmp_path, "shuffle2"), two_counters()
    found = found_of(run)
    assert found.variables == ("open_()", "open_[]")
    table = asked(run, model, 1, 192)
    rows = table[(table["split"] == "score") & (table["site"] == SITE) & (table["method"] == "DAS")]
    by = rows.set_index(["measure", "variable"])["value"]
    assert set(by["next symbols"].index) == {"open_()", "open_[]"}
    assert by[["next symbols", "course, carried"]].min() > 0.9
    cases = drawn_cases(run, model, found, found.parts(0)[0], "read again", 192, 0)
    assert cases is not None
    basis = aligned(model, HOOK, cases, displacements(model, [HOOK], cases)[HOOK], 1)
    torch.testing.assert_close(basis.T @ basis, torch.eye(2), atol=1e-4, rtol=0)
    planted = (model.get_buffer("turn")[:, :2].T @ basis).abs()
    assert planted.diagonal().min() > 0.95


@pytest.mark.slow
def test_the_state_of_an_automaton_is_exchanged_where_it_is_held(tmp_path: Path) -> None:
    run, model = run_of(tmp_path, "tomita3"), machine()
    found = found_of(run)
    assert found.variables == ("state",)
    table = asked(run, model, 4)
    rows = table[(table["site"] == SITE) & (table["split"] == "score")]
    by = rows.set_index(["measure", "method", "amount"])["value"]
    assert by["next symbols", "DAS", 4] > 0.95
    assert by["next symbols", "random subspace", 4] < 0.8
    assert by["next symbols", ARBITRARY, 4] < 0.8
    # The network reads every state off the tokens: no other prefix is remembered.
    assert by["course, prefix exchanged", "whole activation", WIDTH] == 0


def test_the_mean_of_a_state_is_what_steers_to_it(tmp_path: Path) -> None:
    run, model = run_of(tmp_path, "tomita3"), machine()
    table = state_steering(run, model, found_of(run), 0)
    rows = table[(table["site"] == SITE) & (table["split"] == "score")].set_index("method")["value"]
    assert rows["state means"] == 1
    assert rows["random direction, as far"] < 0.8


def test_scrubbing_recovers_what_the_hypothesis_leaves_alone(tmp_path: Path) -> None:
    run = run_of(tmp_path, "anbn")
    found = found_of(run)
    for model in (value(), verdict()):
        table = scrubbing(run, model, found, 0)
        rows = table[(table["site"] == SITE) & (table["measure"] == "loss recovered")]
        recovered = rows.set_index("method")["value"]
        assert recovered["same a-b"] == pytest.approx(1)
        assert recovered["any prefix"] == 0
        assert recovered[["same position", "arbitrary classes"]].max() < 0.5
        # Where the answer is read, no more than the answer is needed: this too is said.
        assert recovered["same next symbols"] == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("anbn", ("a-b",)),
        ("anbncn", ("b-c",)),
        ("dieren", ("state",)),
        ("dyck1", ("depth",)),
        ("shuffle2", ("open_()", "open_[]")),
        ("an", None),
    ],
)
def test_the_variables_that_decide_what_may_follow(
    tmp_path: Path, name: str, variables: tuple[str, ...] | None
) -> None:
    run = run_of(tmp_path, name)
    found, known = Prefixes.of(run, 0), run.language
    assert (found and found.variables) == variables
    if found is None:
        return
    answers = answers_of(run)
    for word, end, state in list(zip(found.words, found.ends, found.states, strict=True))[:40]:
        assert known.contains(word) == end
        traced = known.state(word)
        assert [traced[each] for each in found.variables] == state.tolist()
        for future in found.futures.get(tuple(state.tolist()), [])[:3]:
            allowed = known.allowed(known.vocabulary.words([(*word, *future.rest)]))
            np.testing.assert_array_equal(allowed[0, len(word) :][:, answers], future.allowed)


def test_cases_are_what_the_language_says_of_the_wanted_state(tmp_path: Path) -> None:
    """On one part of the prefixes, balanced, and with answers that the base would not give."""
    run = run_of(tmp_path, "anbn")
    found, model = found_of(run), value()
    parts = found.parts(0)
    assert sorted(np.concatenate(parts)) == list(range(len(found.words)))
    counts = [np.bincount(found.states[part, 0], minlength=14) for part in parts]
    assert np.ptp(counts, axis=0).max() <= 1
    for meaning in (_meant(found), arbitrary(found, 0)):
        cases = drawn_cases(run, model, found, parts[1], "read again", 60, 0, meaning)
        assert cases is not None
        assert set(cases.units.ravel()) <= set(parts[1].tolist())
        for i, (base, source) in enumerate(cases.units.tolist()):
            assert found.lengths[base] == found.lengths[source]
            k = meaning[0][int(found.states[source, 0])]
            assert k != found.states[base, 0]
            read = cases.read[i].nonzero()[:, 0].tolist()
            first = int(found.lengths[base])
            assert read == list(range(first, first + k + 1))
            end = answers_of(run).index(END_ID)
            assert cases.target[i, read, end].tolist() == [False] * k + [True]
    here = drawn_cases(run, model, found, parts[0], "here", 400, 0)
    assert here is not None
    own, wanted = found.ends[here.units[:, 0]], found.ends[here.units[:, 1]]
    assert all(0.15 < np.mean((own == a) & (wanted == b)) < 0.35 for a in (0, 1) for b in (0, 1))
    swapped = arbitrary(found, 0)[0]
    assert sorted(swapped.values()) == sorted(swapped)
    assert all(key != meant for key, meant in swapped.items())


def test_controls_choose_for_themselves_and_sites_are_not_chosen_where_they_score(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path, "anbn")
    found = found_of(run)
    rows = []
    values = {
        ("trained", "DAS", "A"): (0.9, 0.5),
        ("trained", "DAS", "B"): (0.8, 0.7),
        ("trained", "whole activation", "A"): (0.2, 0.6),
        ("trained", "whole activation", "B"): (0.9, 0.8),
        ("untrained", "DAS", "A"): (0.1, 0.9),
        ("untrained", "DAS", "B"): (0.3, 0.4),
    }
    for (model, method, site), pair in values.items():
        for split, number in zip(("choose", "score"), pair, strict=True):
            rows.append({"model": model, "method": method, "site": site, "split": split})
            rows[-1] |= {"value": number, "low": 0.0, "high": 1.0, "words": 9, "units": 5}
            rows[-1] |= {"amount": 1, "variable": "a-b", "measure": "next symbols"}
    table = pd.DataFrame(rows).assign(experiment="interchange")
    result = told(table, found)
    assert result is not None
    about = result["measures"]["next symbols"]
    assert (about["site"], about["rank"]) == ("A", 1)
    assert about["variables"]["a-b"]["values"] == {
        "DAS": 0.5,
        "whole activation": 0.8,
        "DAS, untrained model": 0.4,
    }
    assert about["variables"]["a-b"]["whole"] == 0.6
    assert (result["values"], result["behaviours"]) == (13, 2)


def measured(das: float, **controls: float) -> dict[str, Any]:
    """A measure with one variable."""
    names = {"untrained": "DAS, untrained model", "random": "random subspace", "longer": LONGER}
    values = {"DAS": das} | {names[name]: value for name, value in controls.items()}
    variable = {"values": values, "low": das - 0.1, "high": 1.0, "words": 128, "units": 20}
    return {"site": "A", "rank": 1, "chosen": das, "variables": {"a-b": variable | {"whole": 1.0}}}


@pytest.mark.parametrize(
    ("measures", "recovered", "grade"),
    [
        ({"next symbols": measured(0.9, untrained=0.2, random=0.1)}, 0.9, "holds"),
        ({"next symbols": measured(0.9, untrained=0.85, random=0.1)}, 0.9, NO),
        ({"next symbols": measured(0.9, untrained=0.2, random=0.95)}, 0.9, NO),
        ({"next symbols": measured(0.9, untrained=0.2, longer=0.1)}, 0.9, "fragile"),
        ({"next symbols": measured(0.9, untrained=0.2)}, 0.3, "fragile"),
        ({"course, read again": measured(0.9, untrained=0.2),
          "next symbols": measured(0.1, untrained=0.2)}, 0.9, "holds"),
        ({"course, read again": measured(0.9, untrained=0.2),
          "course, carried": measured(0.1, random=0.1)}, 0.9, "fragile"),
        ({"course, read again": measured(0.9, untrained=0.2),
          "course, carried": measured(0.1, random=0.1),
          "course, carried in proportion": measured(0.8, random=0.1)}, 0.9, "holds"),
    ],
)  # fmt: skip
def test_an_exchange_is_told_beyond_its_controls(
    measures: dict[str, Any], recovered: float, grade: str
) -> None:
    exchange = {"values": 9, "behaviours": 2, "width": 8, "measures": measures}
    kinds = ("same a-b", "same next symbols", "same position", "arbitrary classes")
    scrubbed = {
        "variable": "a-b",
        "recovered": dict(zip(kinds, (recovered, 1, 0.4, 0.1), strict=True)),
    }
    claim = exchange_claim(exchange, "a-b", scrubbed)
    assert claim.grade == grade
    assert MEASURES[next(iter(measures))] in claim.finding


def test_a_state_is_told_beyond_a_random_direction() -> None:
    state = {"site": "A", "value": 0.9, "low": 0.8, "high": 1.0, "words": 128, "units": 20}
    state |= {"untrained": 0.3}
    assert state_claim({**state, "random": 0.2}).grade == "holds"
    assert state_claim({**state, "random": 0.2, "untrained": 0.8}).grade == NO
    assert state_claim({**state, "random": 0.85}).grade == NO


def test_what_is_trained_depends_on_the_run(tmp_path: Path) -> None:
    recurrent = run_of(tmp_path, "anbn", model=ModelConfig(architecture="lstm", d_model=8))
    model = {"trained": recurrent.untrained()}
    assert planned(recurrent, found_of(recurrent), model) == [
        (("state",), "trained", "DAS"),
        (("state",), "trained", ARBITRARY),
    ]
