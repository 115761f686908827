"""A multilayer perceptron on whole words: against PyTorch's own layers, and what it cannot do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import TINY, stir, tiny_config, tiny_of
from torch import nn

from analyses.command_line.app import main
from models.base import build
from models.errors import UserError
from models.languages import END_ID, Vocabulary
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

ABC = Vocabulary(("a", "b", "c"))
PLACES = 6
CONFIG = replace(tiny_of("feedforward"), n_ctx=PLACES + 1, n_layers=3)
WORDS = torch.tensor([[0, 2, 3, 4, 4], [0, 3, 1, 1, 1], [0, 2, 2, 4, 1], [0, 1, 1, 1, 1]])


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_pytorch_s_layers_on_one_hot_words(n_layers: int, bias: bool) -> None:
    model = stir(build(replace(CONFIG, n_layers=n_layers, bias=bias), ABC, 0)).double().eval()
    layers: list[nn.Module] = []
    for d_in in [PLACES * 5, *[CONFIG.d_mlp] * (n_layers - 1)]:
        layers += [nn.Linear(d_in, CONFIG.d_mlp, bias=bias), nn.GELU()]
    theirs = nn.Sequential(*layers, nn.Linear(CONFIG.d_mlp, 5)).double()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), model.state_dict().values(), strict=True)))
    x = torch.zeros(4, PLACES, 5).double()
    for row, word in enumerate(WORDS[:, 1:].tolist()):
        for place, token in enumerate(word):
            x[row, place, token] = float(token != END_ID)
    expected = theirs(x.flatten(1))[:, None].expand(-1, 5, -1)
    assert expected.std(dim=0).min() > 0.01
    torch.testing.assert_close(model(WORDS), expected)
    heard, cache = model.run_with_cache(WORDS)
    torch.testing.assert_close(heard, expected)
    hidden = theirs[:2](x.flatten(1))
    torch.testing.assert_close(cache["blocks.0.hook_resid_post"][:, 3], hidden)


@pytest.mark.parametrize("hook", ["blocks.0.hook_pre", "blocks.2.hook_resid_post"])
def test_a_change_at_bos_alone_reaches_the_answer(hook: str) -> None:
    model = stir(build(CONFIG, ABC, 0)).double().eval()
    for position in (0, 3):

        def change(x: torch.Tensor, hook: object, position: int = position) -> torch.Tensor:
            x = x.clone()
            x[:, position] += 1
            return x

        moved = model.run_with_hooks(WORDS, fwd_hooks=[(hook, change)]) - model(WORDS)
        assert (moved.abs().max() > 0.01) == (position == 0)


def test_padding_is_no_symbol() -> None:
    model = stir(build(CONFIG, ABC, 0)).double().eval()
    longer = torch.nn.functional.pad(WORDS, (0, 2), value=END_ID)
    torch.testing.assert_close(model(longer)[:, :5], model(WORDS))


def test_a_word_longer_than_the_input_is_refused_in_one_line() -> None:
    model = build(CONFIG, ABC, 0)
    model(torch.full((1, PLACES + 1), 2))
    with pytest.raises(UserError, match=r"^a word of 7 symbols is longer [^\n]*\(6\)[^\n]*n-ctx$"):
        model(torch.full((1, PLACES + 2), 2))


def test_what_it_cannot_be_taught_is_refused_in_one_line(tmp_path: Path) -> None:
    for objective in ("next-symbols", "language-model", "masked", "tags"):
        with pytest.raises(UserError, match=r"^a feedforward network gives [^\n]*verdict$"):
            tiny_config(model=CONFIG, objective=objective)
    with pytest.raises(UserError, match=r"reach position 8 and the model reads up to 6: [^\n]*$"):
        Run.create(tmp_path / "long", tiny_config(model=CONFIG, max_n=4))
    assert recipe("parity", CONFIG).objective == "verdict"


def test_it_learns_parity_of_the_words_that_it_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = replace(TINY, architecture="feedforward", n_ctx=5, d_mlp=32, act_fn="relu")
    taught = {"language": "parity", "max_n": 4, "steps": 600, "batch_size": 32}
    taught["evaluate_every"] = 600
    config = tiny_config(model=shape, learning_rate=1e-2, **taught)
    run = Run.create(tmp_path / "parity-feedforward", config)
    train(run, "cpu")
    assert run.metrics()[-1]["recognition"] == 1.0
    assert main(["predict", str(run.path), "a b a b a"]) == 2
    said = capsys.readouterr().err
    assert "a word of 5 symbols is longer than the input" in said
    assert said.count("\n") == 1
    out = ["--out", str(tmp_path), "--steps", "1"]
    assert main(["finetune", str(run.path), "parity", *out]) == 2
    assert "no embedding that another language could share" in capsys.readouterr().err
