"""Small Dutch grammars: phrases in a row and phrases inside others, on one vocabulary; a third has
adjectives that agree.

Dutch agrees in gender and number over any distance: a noun with its article (de hond, het paard), a
subject with its verb (loopt, lopen), a noun with its relative pronoun (die, dat), and a pronoun
with the noun that it refers to (hij, het, ze). Three classes of nouns tell all of it apart. After
"een" an adjective agrees, too (een grote hond, een groot paard).
"""

from __future__ import annotations

from dataclasses import dataclass

from models.languages.grammars.productions import Grammar, grammar_of
from models.languages.grammars.trees import Tree


@dataclass(frozen=True)
class _NounClass:
    """Nouns that agree in the same way.

    Attributes:
        name: its part in the names of nonterminals.
        article: the definite article.
        relative: the relative pronoun.
        pronoun: the pronoun that refers to such a noun.
        nouns: the nouns themselves.
        verbs: the verbs without an object that go with them.
        sees: the verbs with an object.
    """

    name: str
    article: str
    relative: str
    pronoun: str
    nouns: tuple[str, ...]
    verbs: tuple[str, ...] = ("loopt", "slaapt")
    sees: tuple[str, ...] = ("ziet", "volgt")


COMMON = _NounClass("c", "de", "die", "hij", ("hond", "kat", "leeuw"))
NEUTER = _NounClass("n", "het", "dat", "het", ("paard", "schaap", "varken"))
PLURAL = _NounClass(
    "p", "de", "die", "ze", ("honden", "paarden", "katten"), ("lopen", "slapen"), ("zien", "volgen")
)
CLASSES = (COMMON, NEUTER, PLURAL)
ADJECTIVES = ("grote", "kleine")
AFTER_EEN = ((COMMON, ADJECTIVES), (NEUTER, ("groot", "klein")))
"""The adjectives that may follow "een" before a noun of each class."""
EITHER = "luipaard"
"""A noun of either gender: de luipaard, het luipaard."""
IN_A_ROW = (
    "is a row of sentences joined by en, whose articles, verbs and pronouns agree with their nouns"
)
INSIDE = (
    "is a sentence whose nouns may have relative clauses inside each other, and whose articles, "
    "relative pronouns and verbs agree with their nouns"
)
INFLECTED = INSIDE.replace("articles, ", "articles, adjectives, ")
DEEPER = 0.3
"""The probability that a noun has a relative clause, or a sentence another one after it."""


def nested() -> Grammar:
    """A noun may have a relative clause in its middle, which has a noun of its own.

    "de hond die het paard dat de katten zien volgt loopt": the dog that the horse that the cats see
    follows walks. The verbs come in the opposite order of their subjects, at any depth.
    """
    return grammar_of([*_inside(), *_words()], ("en", *(kind.pronoun for kind in CLASSES)))


def inflected() -> Grammar:
    """``nested``, with "een" and adjectives that agree after it.

    "een groot luipaard dat loopt", "een grote luipaard die loopt": where the noun is of either
    gender, the adjective before it alone decides which relative pronoun may come.
    """
    rules = [*_inside(), *_words()]
    for kind, adjectives in AFTER_EEN:
        name = kind.name
        for noun in (f"'een' H_{name}", f"'een' B_{name} H_{name}"):
            rules += _phrases(noun, kind)
        rules += [(f"B_{name}", f"'{adjective}'", 1.0) for adjective in adjectives]
        rules += [(f"H_{name}", f"'{noun}'", 1.0) for noun in (*kind.nouns, EITHER)]
        rules += [(f"N_{name}", f"'{EITHER}'", 2.0)]
    return grammar_of(rules)


def linear() -> Grammar:
    """Sentences in a row, joined by "en"; a pronoun refers to a noun of the sentence before it.

    "het paard ziet de hond en hij loopt": the horse sees the dog and it walks. Subject and object
    are of different classes, so the pronoun says which of them it means.
    """
    rules: list[tuple[str, str, float]] = [
        ("S", "C", 1 - DEEPER),
        ("S", "C 'en' S", DEEPER),
    ]
    for subject in CLASSES:
        rules.append(("C", f"NP_{subject.name} VI_{subject.name}", 3.0))
        for target in CLASSES:
            if subject is target:
                continue
            clause = f"NP_{subject.name} VT_{subject.name} NP_{target.name}"
            rules.append(("C", clause, 1.0))
            for referent in (subject, target):
                rules.append(("C", f"{clause} 'en' '{referent.pronoun}' VI_{referent.name}", 1.0))
    rules += [(f"NP_{kind.name}", f"D_{kind.name} N_{kind.name}", 1.0) for kind in CLASSES]
    return grammar_of([*rules, *_words()], [kind.relative for kind in CLASSES])


def _referents(tree: Tree) -> list[tuple[int, int]]:
    """The places of each pronoun of a sentence of ``linear`` and of the noun that it refers to."""
    pairs = [
        pair for child in tree.children if isinstance(child, Tree) for pair in _referents(child)
    ]
    last = tree.children[-1] if tree.children else None
    if str(tree.label) == "C" and len(tree.children) == 6 and isinstance(last, Tree):
        of_class = str(last.label).rpartition("_")[2]  # a pronoun agrees with its verb
        noun = next(
            child.end - 1
            for child in tree.children
            if isinstance(child, Tree) and str(child.label) == f"NP_{of_class}"
        )
        pairs.append((last.begin - 1, noun))
    return sorted(pairs)


def _inside() -> list[tuple[str, str, float]]:
    """Sentences whose nouns may have relative clauses."""
    rules = [("S", f"NP_{kind.name} VI_{kind.name}", 1.0) for kind in CLASSES]
    for kind in CLASSES:
        rules += _phrases(f"D_{kind.name} N_{kind.name}", kind)
    return rules + [("R", f"NP_{kind.name} VT_{kind.name}", 1.0) for kind in CLASSES]


def _phrases(noun: str, kind: _NounClass) -> list[tuple[str, str, float]]:
    """Phrases of a noun with what stands before it: without and with a relative clause."""
    left = f"NP_{kind.name}"
    return [(left, noun, 1 - DEEPER), (left, f"{noun} '{kind.relative}' R", DEEPER)]


def _words() -> list[tuple[str, str, float]]:
    """The words of all grammars: nouns with and without adjectives, articles and verbs."""
    rules = [("A", f"'{adjective}'", 1.0) for adjective in ADJECTIVES]
    for kind in CLASSES:
        name = kind.name
        rules += [(f"N_{name}", f"'{noun}'", 2.0) for noun in kind.nouns]
        rules += [(f"N_{name}", f"A N_{name}", 2.0)]
        rules += [(f"D_{name}", f"'{kind.article}'", 1.0)]
        rules += [(f"VI_{name}", f"'{verb}'", 1.0) for verb in kind.verbs]
        rules += [(f"VT_{name}", f"'{verb}'", 1.0) for verb in kind.sees]
    return rules
