"""Languages seen through a tokeniser: their words in letters, or in pieces of several letters."""

from models.errors import UserError
from models.languages.counting import CountingLanguage
from models.languages.language import FormalLanguage, Language
from models.languages.pairs.transduction import Transduction
from models.languages.regular import RegularLanguage
from models.languages.tokens.merged import MergedCounting, MergedLanguage, MergedRegular
from models.languages.tokens.spelled import SpelledLanguage
from models.languages.tokens.tokenised import TokenisedLanguage
from models.languages.tokens.tokeniser import WORDS, Tokeniser, is_spelled, merges_of

__all__ = ["WORDS", "TokenisedLanguage", "Tokeniser", "is_spelled", "merges_of", "tokenised"]


def tokenised(language: Language, vocabulary: str, tokeniser: Tokeniser | None = None) -> Language:
    """A language seen through a tokeniser; itself, if its symbols are the tokens.

    Args:
        vocabulary: see ``merges_of``.
        tokeniser: the tokeniser; by default it is learned.

    Raises:
        UserError: there is no such vocabulary, or none of this language.
    """
    merges = merges_of(vocabulary)
    if merges is None:
        return language
    if not isinstance(language, FormalLanguage) or isinstance(language, Transduction):
        data = "pairs" if isinstance(language, Transduction) else "lines of a corpus"
        raise UserError(
            f"{language.name} has {data}, which are not cut into tokens: leave --vocabulary out"
        )
    tokeniser = tokeniser or Tokeniser.learn(language, vocabulary)
    if tokeniser.spelled:
        return SpelledLanguage(language, tokeniser)
    kinds = {RegularLanguage: MergedRegular, CountingLanguage: MergedCounting}
    kind = next((kinds[base] for base in kinds if isinstance(language, base)), MergedLanguage)
    return kind(language, tokeniser)
