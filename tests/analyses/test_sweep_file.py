"""What a sweep's file may say, and which runs come of it."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from analyses.options.shipped import SWEEPS, find, shipped
from analyses.options.studies import Sweep
from analyses.studies.sweeps.exam import Exam
from analyses.studies.sweeps.file import FIELDS, SweepFile, checked, read
from analyses.studies.sweeps.plan import _largest_size, plan
from models.config import TrainConfig
from models.errors import UserError
from models.languages import TABLE_1, language
from models.training.recipes import recipe

HEAD = 'question = "Which?"\nlanguages = ["anbn"]\nseeds = 2\n'


def parsed(text: str, head: str = HEAD) -> SweepFile:
    return checked(tomllib.loads(head + text))


def configs(text: str, head: str = HEAD) -> dict[str, TrainConfig]:
    return {run.name: run.config for run in plan(parsed(text, head))[0]}


def test_every_combination_is_a_run_of_its_own() -> None:
    text = """
    [vary]
    objective = ["next-symbols", "verdict"]
    "model.n_layers" = [1, 2]
    [[variants]]
    name = "plain"
    [[variants]]
    name = "lstm"
    "model.architecture" = "lstm"
    """
    found = configs(text)
    assert list(found)[:3] == [
        "anbn-plain-n_layers-1-next-symbols-s0",
        "anbn-plain-n_layers-1-next-symbols-s1",
        "anbn-plain-n_layers-2-next-symbols-s0",
    ]
    assert len(found) == 2 * 2 * 2 * 2
    config = found["anbn-lstm-n_layers-2-verdict-s1"]
    assert (config.model.architecture, config.model.n_layers) == ("lstm", 2)
    assert (config.objective, config.seed) == ("verdict", 1)
    assert config.model.act_fn == "relu"  # the rest is the recipe of an LSTM
    assert config.steps == 800


def test_names_stay_when_a_file_grows() -> None:
    small = configs('[vary]\nmax_length = [10]\n"model.norm" = ["layer"]\n')
    large = configs(
        '[vary]\n"model.norm" = ["rms", "none", "layer"]\nmax_length = [20, 10]\n',
        'question = "?"\nlanguages = ["parity", "anbn"]\nseeds = 3\n',
    )
    assert set(small) == {"anbn-max_length-10-layer-s0", "anbn-max_length-10-layer-s1"}
    assert {name: large[name] for name in small} == small
    assert "parity-max_length-20-norm-none-s2" in large  # several fields have a "none"


def test_values_of_all_types_make_folder_names() -> None:
    assert set(
        configs('[vary]\nlearning_rate = [1, 0.003, 1e-5]\n"model.bias" = [true, false]\n')
    ) >= {
        "anbn-learning_rate-1.0-bias-true-s0",
        "anbn-learning_rate-0.003-bias-false-s0",
        "anbn-learning_rate-1e-05-bias-true-s1",
    }


def test_the_window_in_symbols_becomes_a_size() -> None:
    head = 'question = "?"\nlanguages = ["anbn", "anbncn", "parity"]\nseeds = 1\n'
    found = configs("[fixed]\nmax_length = 40\n", head)
    assert {name: config.max_n for name, config in found.items()} == {
        "anbn-s0": 20, "anbncn-s0": 13, "parity-s0": 40,
    }  # fmt: skip
    for name in ("anbn", "anbncn", "anbncndn", "parity"):
        known = language(name)
        for length in range(4, 30):
            n = _largest_size(name, length)
            assert known.length_of(n) <= length < known.length_of(n + 1)


def test_one_language_may_be_taught_longer() -> None:
    head = 'question = "?"\nlanguages = ["anbn", "parity"]\nseeds = 1\n'
    found = configs("[fixed]\nsteps = 5\n[language.parity]\nsteps = 9\n", head)
    assert {name: config.steps for name, config in found.items()} == {"anbn-s0": 5, "parity-s0": 9}


def test_without_anything_varied_the_recipes_are_trained() -> None:
    found = configs("")
    assert list(found) == ["anbn-s0", "anbn-s1"]
    assert found["anbn-s0"] == recipe("anbn")


def test_a_file_says_which_recipe_it_changes() -> None:
    found = configs("[fixed]\nsteps = 5\n", HEAD + 'recipe = "counting"\n')
    assert found["anbn-s0"] == replace(recipe("anbn", name="counting"), steps=5)
    with pytest.raises(UserError, match="parity is impossible: parity has no recipe 'counting'"):
        configs("", 'question = "?"\nlanguages = ["parity"]\nrecipe = "counting"\n')


def test_the_sweeps_of_the_lab_say_which_recipe_they_change() -> None:
    counting = {name for name in shipped() if read(SWEEPS / f"{name}.toml").recipe == "counting"}
    assert counting == {"built-in", "seeds"}
    assert all("\nrecipe = " in (SWEEPS / f"{name}.toml").read_text() for name in shipped())


def test_a_group_of_languages() -> None:
    file = checked({"question": "?", "languages": "table-1"})
    assert file.languages == TABLE_1
    assert file.seeds == 10
    assert file.exam == Exam(lengths=None, windows=4, count=8, hard=True, seed=0)


def test_impossible_combinations_are_skipped_where_the_file_says_so() -> None:
    vary = '[vary]\n"model.d_model" = [16, 18]\n"model.n_heads" = [4]\n'
    with pytest.raises(UserError, match=r"^anbn-d_model-18-n_heads-4 is impossible: d_model 18"):
        configs(vary)
    runs, skipped = plan(parsed(vary, HEAD + "skip_impossible = true\n"))
    assert [run.name for run in runs] == [f"anbn-d_model-16-n_heads-4-s{seed}" for seed in (0, 1)]
    assert len(skipped) == 1
    with pytest.raises(UserError, match="no combination is possible: anbn-d_model-18"):
        configs(vary.replace("16, ", ""), HEAD + "skip_impossible = true\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('recipe = "fast"', "recipe is 'fast': choose one of plain, counting"),
        ('[fixed]\nrecipe = "counting"', r"unknown 'recipe' in \[fixed\]"),
        ('[test]\nlengths = "1:10001"', 'lengths is "1:10001": write "FIRST:LAST"'),
        ("steps = 3", r"steps stands at the top of the file: write it below \[fixed\]"),
        ("windows = 2", r"windows stands at the top of the file: write it below \[test\]"),
        ("seds = 3", "unknown 'seds' at the top of the file: did you mean seeds"),
        ("[fixed]\nstesp = 3", r"unknown 'stesp' in \[fixed\]: did you mean steps"),
        ("[fixed]\nseed = 3", r"unknown 'seed' in \[fixed\]: write seeds, how many, at the top"),
        ("[fixed]\nxyzzy = 3", r"unknown 'xyzzy' in \[fixed\]: choose one of vocabulary, max_n"),
        ("[fixed]\nmodel.n_layers = 3", r'in \[fixed\]: write "model.n_layers" in quotes'),
        ('[fixed]\nsteps = "many"', r"steps in \[fixed\] is 'many': write a whole number"),
        ("[fixed]\nsteps = true", r"steps in \[fixed\] is True: write a whole number"),
        ("[fixed]\nsteps = 1.5", r"steps in \[fixed\] is 1.5: write a whole number"),
        ('[fixed]\n"model.output" = "tags"', "leave model.output out, and choose an objective"),
        ("[fixed]\nsteps = 0", "anbn is impossible: steps is 0: it must be at least 1"),
        ('[fixed]\nlearning_rate = "x"', r"learning_rate in \[fixed\] is 'x': write a number"),
        ('[fixed]\n"model.bias" = 1', r"model.bias in \[fixed\] is 1: write true or false"),
        ('[vary]\n"model.norm" = ["rsm"]', r"model.norm in \[vary\] is 'rsm': choose one of lay"),
        ("[vary]\nsteps = []", r"steps in \[vary\] is \[\]: write a list of values"),
        ("[vary]\nsteps = 3", r"steps in \[vary\] is 3: write a list of values"),
        ("[vary]\nsteps = [3, 4, 3]", r"steps in \[vary\] has 3 twice: drop one"),
        ("[fixed]\nsteps = 3\n[vary]\nsteps = [4]", r"steps stands in \[vary\] and \[fixed\]"),
        ("[language.anbn]\nsteps = 3\n[vary]\nsteps = [4]", r"stands in \[vary\] and \[language\]"),
        (
            "[language.parity]\nsteps = 3",
            r"\[language.parity\] is for a language that this sweep does not",
        ),
        ("[fixed]\nmax_n = 3\nmax_length = 4", "max_n and max_length both set the training window"),
        ("[fixed]\nmax_length = 1", "anbn is impossible: anbn has no word of 1 symbols"),
        ('[[variants]]\n"model.norm" = "rms"', "a variant's name is None: "),
        ('[[variants]]\nname = "a/b"', "a variant's name is 'a/b': "),
        ('[[variants]]\nname = "a"\n[[variants]]\nname = "a"', "has 'a' twice"),
        ('[variants]\nname = "a"', r"write \[\[variants\]\] above each"),
        ("variants = [3]", r"write \[\[variants\]\] above each"),
        ('[[variants]]\nname = "a"\nsteps = "x"', "steps in the variant a is 'x': write a whole"),
        ("[language]\nanbn = 3", r"language.anbn is 3: write it as a table, \[language.anbn\]"),
        ("[language.anbn]\nstesp = 3", r"unknown 'stesp' in \[language.anbn\]: did you mean"),
        ("fixed = 3", r"fixed is 3: write it as a table, \[fixed\]"),
        ('[test]\nlengths = "41-500"', 'lengths is "41-500": write "FIRST:LAST"'),
        ('[test]\nlengths = "9:4"', 'lengths is "9:4": write "FIRST:LAST"'),
        ('[test]\nlengths = "1:9"\nwindows = 2', "has lengths and windows: leave one out"),
        ('[test]\nlengths = "41:41"', "anbn is impossible: anbn has no test words of these"),
        ("[test]\ncount = 1", r"count in \[test\] is 1: it must be at least 2"),
        ("[test]\nhard = 1", r"hard in \[test\] is 1: write true or false"),
        ('[test]\nlengths = "1:9"\nthinned = true', "has lengths and thinned: leave one out"),
        ("[fixed]\nmax_offset = 3\nshifted = true", "both set where training words start"),
        ("[fixed]\nshifted = true", "anbn is impossible: max_offset shifts absolute positions"),
        ("[compare]\nbands = [2, 1]", r"bands is \[2, 1\]: write windows in ascending order"),
        ("[compare]\nbands = [1, 2]", "bands end at 2 windows and the test at 4: make both"),
        ('[test]\nlengths = "1:9"\n[compare]\nbands = [1]', "bands of windows and .* lengths"),
        ('[compare]\nmeasure = "exat"', r"measure in \[compare\] is 'exat': choose one of reco"),
        ("[compare]\nmesure = 1", r"unknown 'mesure' in \[compare\]: did you mean measure"),
        ("[compare]\nbands = [1.5]", r"bands in \[compare\] is 1.5: write a whole number"),
        ("[test]\nwords = 1", r"unknown 'words' in \[test\]"),
        (
            '[fixed]\n"model.positions" = "learned"\n[test]\nlengths = "1000:1200"',
            "anbn is impossible: words reach position 1200 and the model reads up to 1023",
        ),
        (
            '[[variants]]\nname = "rms"\n[[variants]]\nname = "b"\n[vary]\n"model.norm" = ["rms"]\n'
            '[fixed]\n"model.n_heads" = 3',
            "anbn-rms-rms is impossible: d_model 64 does not divide",
        ),
    ],
)
def test_faults_are_told_in_one_line(text: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault) as told:
        configs(text)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ('languages = ["anbn"]', "question is missing"),
        ('question = "?"', "languages is missing"),
        ('question = 3\nlanguages = ["anbn"]', "question is 3: write a text in quotes"),
        ('question = "?"\nlanguages = []', "languages is empty"),
        ('question = "?"\nlanguages = ["nb"]', "unknown language 'nb'"),
        ('question = "?"\nlanguages = ["anbn", "anbn"]', "languages has 'anbn' twice"),
        ('question = "?"\nlanguages = 3', "languages is 3: write a list of names"),
        ('question = "?"\nlanguages = "an"\nseeds = 0', "seeds is 0: it must be at least 1"),
        (f'question = "?"\nlanguages = "an"\nseeds = {10**9}', "it must be at most 10000"),
        ('question = "?"\nlanguages = "an"\nseeds = [1]', r"seeds is \[1\]: write a whole number"),
    ],
)
def test_faults_at_the_top(head: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        parsed("", head)


def test_two_runs_of_one_name_are_refused() -> None:
    head = 'question = "?"\nlanguages = ["dyck1", "dyck1-2"]\nseeds = 1\n'
    variants = '[[variants]]\nname = "2"\n[[variants]]\nname = "2-2"\n'
    with pytest.raises(UserError, match="2 runs would be named dyck1-2-2-s0: rename a variant"):
        configs(variants, head)


def test_the_command_line_narrows_a_file() -> None:
    file = parsed('[[variants]]\nname = "v"\nsteps = 8\n[fixed]\nsteps = 9\n')
    found = plan(file.narrowed(("parity",), 1, 5))[0]
    assert [(run.name, run.config.steps) for run in found] == [("parity-v-s0", 5)]
    (run,) = plan(parsed("[language.anbn]\nsteps = 9\n").narrowed(seeds=1, steps=5))[0]
    assert run.config.steps == 5
    with pytest.raises(UserError, match="unknown language"):
        file.narrowed(("nb",))
    with pytest.raises(UserError, match="--seeds is 0"):
        Sweep("seeds", seeds=0)
    with pytest.raises(UserError, match="--steps is 0"):
        Sweep("seeds", steps=0)
    with pytest.raises(UserError, match="leave --steps out"):
        parsed("[vary]\nsteps = [4]").narrowed(steps=3)


def test_files_are_found_by_path_and_by_name(tmp_path: Path) -> None:
    assert find("seeds") == SWEEPS / "seeds.toml"
    assert find(str(tmp_path / "x.toml")) == tmp_path / "x.toml"
    with pytest.raises(UserError, match=r"neither a file nor a sweep of the lab: .*seeds"):
        find("nosuch")
    with pytest.raises(UserError, match=r"cannot read .*x.toml \(No such file"):
        read(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(UserError, match=r"x.toml has lists or tables in too many others: write f"):
        read(tmp_path / "x.toml")
    for content, fault in (
        (b"question = ", r" is not TOML \("),
        (b"\xff", r": not UTF-8 \(byte 0\): save it as plain text in UTF-8$"),
        (b"a = " + b"9" * 5000, r" is not TOML \("),
    ):
        (tmp_path / "x.toml").write_bytes(content)
        with pytest.raises(UserError, match=f"x.toml{fault}"):
            read(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text(f"\ufeff{HEAD}", encoding="utf-8")  # as some editors do
    assert read(tmp_path / "x.toml").languages == parsed("").languages
    (tmp_path / "x.toml").write_text('question = "?"\nlanguages = "nb"')
    with pytest.raises(UserError, match=r"x.toml: unknown language 'nb'"):
        read(tmp_path / "x.toml")


@pytest.mark.parametrize("name", shipped())
def test_the_sweeps_of_the_lab_can_be_trained(name: str) -> None:
    runs, _ = plan(read(SWEEPS / f"{name}.toml"))
    assert runs


def test_the_sweeps_of_the_lab_are_installed_with_it() -> None:
    project = tomllib.loads((SWEEPS.parents[2] / "pyproject.toml").read_text())
    (pattern,) = project["tool"]["setuptools"]["package-data"]["analyses.studies.sweeps"]
    assert {path.stem for path in SWEEPS.glob(pattern)} == set(shipped()) != set()


def test_every_field_can_be_changed() -> None:
    assert {"steps", "objective", "max_length", "model.n_layers", "model.positions"} <= set(FIELDS)
    assert not {"language", "seed", "model"} & set(FIELDS)
