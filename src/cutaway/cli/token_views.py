"""Views of `cutaway tokens` beside its table: merges, foreign ids, and the vocabulary by script."""

from __future__ import annotations

from cutaway.cli.columns import shortened
from cutaway.cli.loading import model_on_disk
from cutaway.cli.terminal import write_json, write_table
from cutaway.text import Tokenizer


def merges(text: str, model: str, *, as_json: bool) -> None:
    """The words of a text, each with its merges in order."""
    from cutaway.xray.merges import merge_steps

    words = merge_steps(_tokenizer(model), text)
    if as_json:
        write_json({"model": model, "words": [word.json() for word in words]})
        return
    for word in words:
        print(f"{_parts(word.start)}   ({'a token as a whole' if word.whole else 'the characters'})")
        rows = [[f"  {step.rank}", f"{step.left} + {step.right}", _parts(step.parts)] for step in word.steps]
        if rows:
            write_table(["  merge", "joins", "parts"], rows)
        print(f"  ids: {' '.join(map(str, word.ids))}\n")
    print("the merge with the smallest number goes first, wherever it stands; pieces are spelled as in the vocabulary")


def ids_of(text: str, named: str, model: str, *, as_json: bool) -> None:
    """The ids that one model has for a text, read with the vocabulary of another."""
    from cutaway.xray.vocabulary_view import reread

    own, other = _tokenizer(named), _tokenizer(model)
    ids = own.encode(text, add_special=False)
    found = reread(ids, own, other)
    known = [id for id in ids if id < other.vocab_size]
    becomes = other.decode(known)
    if as_json:
        rows = [{"id": r.id, "here": r.here, "there": r.there} for r in found]
        write_json({"ids_of": named, "read_with": model, "tokens": rows, "text": text, "becomes": becomes})
        return
    rows_ = [[str(r.id), r.here, "(no such id)" if r.there is None else r.there] for r in found]
    write_table(["id", named, model], rows_, right=[0])
    same = sum(r.here == r.there for r in found)
    print(f"\n{same} of {len(ids)} ids mean the same; the text becomes {shortened(becomes, 70)!r}")


def scripts(model: str, *, as_json: bool) -> None:
    """How many tokens of a vocabulary each script has."""
    from cutaway.xray.vocabulary_view import script_shares

    tokenizer = _tokenizer(model)
    shares = script_shares(tokenizer)
    if as_json:
        write_json({"model": model, "vocabulary": tokenizer.vocab_size, "scripts": [s.json() for s in shares]})
        return
    rows = [[s.script, str(s.tokens), f"{s.share:.2%}", shortened(s.longest, 40)] for s in shares]
    write_table(["script", "tokens", "share", "longest"], rows, right=(1, 2))
    print(f"\n{tokenizer.vocab_size} tokens")


def _parts(parts: tuple[str, ...]) -> str:
    return " | ".join(parts)


def _tokenizer(model: str) -> Tokenizer:
    from cutaway.formats import open_model
    from cutaway.text import load_tokenizer

    with open_model(model_on_disk(model).path) as opened:
        return load_tokenizer(opened.path, opened.metadata)
