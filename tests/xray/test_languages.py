"""Languages of the Latin script, by their small words, and slides from one into another."""

from __future__ import annotations

import pytest

from cutaway.xray.languages import language_of, language_slide

TEXTS = {
    "English": "The river runs through the middle of the town, and most of the houses that stand on its banks are as"
    " old as the bridge, which was built by the monks for the market on the other side.",
    "French": "La rivière traverse le milieu de la ville, et la plupart des maisons qui se trouvent sur ses rives "
    "sont aussi anciennes que le pont, que les moines ont construit pour le marché dans cette partie du "
    "bourg.",
    "German": "Der Fluss fließt durch die Mitte der Stadt, und die meisten Häuser, die an seinen Ufern stehen, sind"
    " so alt wie die Brücke, die von den Mönchen für den Markt auf der anderen Seite gebaut wurde und "
    "nicht mehr ist.",
    "Spanish": "El río pasa por el centro de la ciudad, y la mayor parte de las casas que están en las orillas son "
    "tan antiguas como el puente, que los monjes construyeron para el mercado del otro lado y que es más "
    "largo.",
    "Italian": "Il fiume passa per il centro della città, e la maggior parte delle case che si trovano sulle rive "
    "sono antiche come il ponte, che i monaci hanno costruito per il mercato della parte opposta, e non è"
    " più lungo.",
    "Portuguese": "O rio passa pelo centro da cidade, e a maior parte das casas que estão nas margens são tão antigas "
    "como a ponte, que os monges fizeram para o mercado do outro lado, e não é mais usada em dias de "
    "chuva.",
    "Dutch": "De rivier loopt door het midden van de stad, en de meeste huizen die op de oevers staan zijn zo oud "
    "als de brug, die door de monniken is gebouwd voor de markt aan de andere kant en niet meer te zien "
    "is.",
}  # fmt: skip


@pytest.mark.parametrize("language", TEXTS)
def test_each_is_known(language: str) -> None:
    words = TEXTS[language].lower().replace(",", "").replace(".", "").split()
    assert language_of(words) == language
    assert language_of(words[:24]) == language
    assert language_slide(TEXTS[language] * 3, "") is None


@pytest.mark.parametrize("first", TEXTS)
@pytest.mark.parametrize("second", TEXTS)
def test_slides(first: str, second: str) -> None:
    text = f"{TEXTS[first]} {TEXTS[second]}"
    slide = language_slide(text, "Tell me of it.")
    if first == second:
        assert slide is None
        return
    assert slide is not None and (slide.before, slide.language) == (first, second)
    assert abs(slide.at - len(TEXTS[first])) < 110
    assert language_slide(text, f"Say it first in one language and then in {second}.") is None
    assert language_slide(text, TEXTS[second]) is None


def test_what_is_too_little_is_unknown() -> None:
    assert language_of([]) is None and language_of(["tomato", "kernel", "rust"]) is None
    assert language_slide("word " * 100, "") is None
    assert language_slide("```\n" + TEXTS["French"] + "\n```\n" + TEXTS["English"], "") is None
    assert language_slide(TEXTS["English"] + " « Je ne sais pas, dit-il, c'est la vie. »", "") is None
