"""Code knows which verb it runs in, and that it runs in none."""

from verbworker.job.current_verb import performed_verb, performing


def test_a_verb_is_known_while_it_is_performed() -> None:
    with performing("kyc.screen"):
        inside = performed_verb()

    assert (inside, performed_verb()) == ("kyc.screen", None)
