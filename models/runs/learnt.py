"""The language of a run: registered, its own, or a corpus; whole or cut into tokens."""

from __future__ import annotations

from pathlib import Path

from models.config import MOST_PAIRS, SELECTION_WORDS, TrainConfig
from models.errors import UserError
from models.languages import (
    AmbiguousLanguage,
    LabelledCorpus,
    Language,
    PairCorpus,
    UnlabelledCorpus,
    language,
)
from models.languages.tokens import WORDS, TokenisedLanguage, Tokeniser, is_spelled, tokenised
from models.objectives import OBJECTIVES, objective
from models.plain_files import plain_size


def corpus_of(path: Path, config: TrainConfig, name: str | None = None) -> Language:
    """The corpus of a file: pairs where targets are taught, labelled lines where verdicts are, and
    lines without labels where the symbols of words are.

    Args:
        name: the name of the corpus; by default that of the file.

    Raises:
        UserError: the file cannot be read, or is malformed; or a corpus cannot be taught so.
    """
    taught = objective(config.objective)
    if taught.of_pairs:
        _refuse_rare(config)
        return PairCorpus.from_file(path, name)
    if not taught.verdict_alone and not taught.members_alone:
        plain_size(path, "check the path")
        raise UserError(
            f"{path}: a file of lines says nothing of what may follow a part of one: choose "
            "--objective verdict for lines of label, tab, words; language-model or masked for "
            "lines of words; or sequence-to-sequence for lines of source, tab, target"
        )
    if config.vocabulary != WORDS:
        raise UserError(
            f"{path}: its lines are cut at blanks alone: leave --vocabulary {config.vocabulary} out"
        )
    kind = LabelledCorpus if taught.verdict_alone else UnlabelledCorpus
    return kind.from_file(path, name, config.rare)


def _refuse_rare(config: TrainConfig) -> None:
    if config.rare:
        raise UserError(
            "rare words are read as <unk> in labelled lines alone: give them with --corpus, or "
            "leave --rare out"
        )


def formal(config: TrainConfig, tokens: bytes | None = None, path: Path = Path()) -> Language:
    """The language that is no corpus: a registered one, or one that the run keeps.

    Args:
        tokens: the file of its tokeniser; by default that is learned anew.
        path: the path of this file.
    """
    _refuse_rare(config)
    base = language(config.language, config.regex, config.symbols, config.grammar)
    if isinstance(base, AmbiguousLanguage) and not objective(config.objective).verdict_alone:
        raise UserError(
            f"words of {base.name} fit two rules, and what may follow a part of one tells which is "
            "meant: choose --objective verdict"
        )
    tokeniser = None if tokens is None else Tokeniser.read(tokens, is_spelled(base), str(path))
    return tokenised(base, config.vocabulary, tokeniser)


def selection_lengths(language: Language, config: TrainConfig) -> list[int]:
    """The word lengths by which the weights are chosen (``TrainConfig.selection_window``); empty
    where the last ones are kept.

    Raises:
        UserError: they are asked for, and there are none beyond the training window.
    """
    if not config.selection_window:
        return []
    window = language.lengths(config.max_n)[-1]
    lengths = language.lengths(int(config.selection_window * config.max_n))
    beyond = [length for length in lengths if length > window]
    if beyond and beyond[-1] ** 2 * SELECTION_WORDS > MOST_PAIRS:
        raise UserError(
            f"{SELECTION_WORDS} words of up to {beyond[-1]} symbols are too many to read at once: "
            "choose a smaller --selection-window"
        )
    if beyond:
        return beyond
    raise UserError(
        f"selection_window is {config.selection_window:g}: it chooses on words beyond the training "
        f"window, and {language.name} has none there: choose a larger number, or 0"
    )


def tokens_of(language: TokenisedLanguage, config: TrainConfig) -> bytes:
    """The file of the tokeniser. Raises UserError if what is taught is not known of its tokens."""
    if OBJECTIVES[config.objective].sight == "before" and not language.knows_next:
        raise UserError(
            f"which token of {config.vocabulary} may come next in {language.name} is not known, "
            f"only whether a word is in it: choose --objective verdict, or leave --vocabulary out"
        )
    return language.tokeniser.content
