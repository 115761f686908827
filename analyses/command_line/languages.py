"""The command `lab languages`: what can be trained. It answers without torch."""

from __future__ import annotations

import pandas as pd

from analyses.command_line.arguments import productions
from analyses.console import OUT, as_rows, shown, table_of
from analyses.options.commands import Languages
from models.errors import UserError
from models.languages import LANGUAGES, FormalLanguage, language
from models.languages.pairs.syntax_directed import SyntaxDirected
from models.training.recipes import recipes_of


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
    """The merges of a language or a text, how they cut a word, and whether they find its words."""
    from analyses.lectures import tokens as of_tokens
    from models.languages.tokens.tokeniser import Text

    source = Text(options.text) if options.text else language(options.name)
    cutter = of_tokens.tokeniser_of(source, options.tokens)
    word = cutter.parse(options.word) if options.word else cutter.encode(source.example())
    rows, table = of_tokens.merges(source, cutter), of_tokens.judged(source, cutter)
    text = of_tokens.in_words(source, cutter, table)
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
    from analyses.lectures.truth import reader_of, rule_in_words

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
