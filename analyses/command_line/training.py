"""Commands about training: what can be trained, train it, go on."""

from __future__ import annotations

import shutil

import pandas as pd

from analyses.command_line.arguments import productions
from analyses.console import ERR, OUT, as_rows, progress_bar, shown, table_of
from analyses.jobs.trained import finish
from analyses.lectures import tokens as of_tokens
from analyses.lectures.truth import reader_of, rule_in_words
from analyses.options.commands import Finetune, Languages, Resume, Train
from models.errors import UserError, lab
from models.languages import LANGUAGES, FormalLanguage, LabelledCorpus, language
from models.languages.pairs.syntax_directed import SyntaxDirected
from models.plants.record import read_plan
from models.runs.files import locked
from models.runs.run import Run, run_name
from models.training.recipes import recipes_of
from models.training.trainer import choose_device


def languages(options: Languages) -> None:
    """The languages to train, each with type in the Chomsky hierarchy, example and near miss."""
    if options.tokens:
        _tokens(options)
        return
    if options.name or options.grammar:
        _one_language(options)
        return
    rows = []
    for name in LANGUAGES:
        lang = language(name)
        missed = lang.near_miss_example() if isinstance(lang, FormalLanguage) else None
        row: dict[str, str | None] = {
            "name": name,
            "type": lang.chomsky,
            "symbols": " ".join(lang.vocabulary.symbols),
            "example": " ".join(lang.example()),
            "near miss": " ".join(missed) if missed else None,
            "recipes": " ".join(recipes_of(name)),
        }
        rows.append(row)
    table = pd.DataFrame(rows)
    if shown(options, table):
        return
    OUT.print(table_of(table.drop(columns="recipes")))
    counting = [name for name in LANGUAGES if "counting" in recipes_of(name)]
    OUT.print(f"--recipe plain is the default; {' and '.join(counting)} have counting too.")


def _tokens(options: Languages) -> None:
    """The merges of a language, how they cut a word, and whether they find its words."""
    lang = language(options.name)
    cutter = of_tokens.tokeniser_of(lang, options.tokens)
    word = cutter.parse(options.word) if options.word else cutter.encode(lang.example())
    rows, table = of_tokens.merges(lang, cutter), of_tokens.judged(lang, cutter)
    text = of_tokens.in_words(lang, cutter, table)
    content = {"merges": as_rows(rows), "word": word, "judged": as_rows(table), "answer": text}
    if shown(options, table, content):
        return
    if len(rows):
        OUT.print(table_of(rows, "merges, in their order"))
    OUT.print(table_of(table, "beside pairs that are merged at random"))
    OUT.print(f"{len(word)} tokens: {' '.join(word)}")
    OUT.print(text)


def _one_language(options: Languages) -> None:
    """A language: its machine, its production rules, and what a reader keeps along a word."""
    lang = language(options.name or "mine", grammar=productions(options.grammar))
    if not isinstance(lang, FormalLanguage):
        raise UserError(f"{lang.name} has no rules: it is a corpus")
    word = lang.vocabulary.parse(options.word) if options.word else lang.example()
    table = reader_of(lang, word)
    if shown(options, table):
        return
    rule = rule_in_words(lang)
    OUT.print(f"{lang.name} is {lang.chomsky}. It is read by {lang.machine}.")
    if rule:
        OUT.print(f"A word is in it if it {rule}.")
    if lang.productions:
        start = lang.productions[0].split()[0]
        both = "; a>x is an a of the source and an x of the target"
        pairs = isinstance(lang, SyntaxDirected)
        OUT.print(f"Production rules, from {start}{both if pairs else ''}:")
        OUT.print(*(f"  {rule}" for rule in lang.productions), sep="\n")
    is_in = "is" if lang.contains(word) else "is not"
    OUT.print(f"{' '.join(word)} {is_in} in it. After each symbol:")
    OUT.print(table_of(table))


def train(options: Train) -> None:
    """Train a language or a corpus."""
    _begin(options)


def finetune(options: Finetune) -> None:
    """Train from the weights of another run."""
    _begin(options, Run(options.start))


def _begin(options: Train, parent: Run | None = None) -> None:
    """Makes a run and trains it. Whatever must be refused is refused before a folder is made."""
    config = options.config
    choose_device(options.device)
    path = options.out / run_name(config)
    Run.check_new(path)  # whoever trains it now is not waited for
    with locked(path):
        run = Run.create(path, config, options.corpus, parent)
        if isinstance(run.language, LabelledCorpus) and run.language.shape:
            OUT.print(f"{options.corpus}: {run.language.shape}", markup=False, soft_wrap=True)
        try:
            _go(run, options.device)
        except (MemoryError, RuntimeError):  # of a GPU's memory it is the latter
            if not run.metrics():  # nothing was learned: it is refused, as if it were not begun
                shutil.rmtree(path)
            raise


def resume(options: Resume) -> None:
    """Go on with an interrupted run."""
    run = Run(options.run)
    if run.record["status"] == "finished":
        OUT.print(f"{run.path} is finished already")
        return
    if read_plan(run.path) is not None:
        raise UserError(f"{run.path} was planted, not trained: remove it, and plant it again")
    with locked(run.path):
        _go(run, options.device)


def _go(run: Run, device: str) -> None:
    """Trains under a progress bar and says how it ended. The caller holds the run's lock."""
    with progress_bar(run.name) as report:

        def progress(step: int, loss: float | None) -> None:
            title = run.name if loss is None else f"{run.name}  loss {loss:.4f}"
            report(step, run.config.steps, title)

        try:
            finish(run, device, progress)
        except KeyboardInterrupt:
            ERR.print(f"go on with `{lab('resume', run.path)}`")
            raise
    record = run.record
    text = f"{run.path}: {record['steps']} steps in {record['seconds']:.0f} s"
    if "selected_step" in record:
        text += f", weights of step {record['selected_step']}"
    if last := run.evaluation():  # the file of a run that was resumed may have been removed
        exact = "" if last["exact"] is None else f"exact {last['exact']:.1%}, "
        text += f"; training window: {exact}recognition {last['recognition']:.1%}"
    OUT.print(text)
