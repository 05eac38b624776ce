"""Tokens: shown once, kept as digests, and worth nothing once they are revoked."""

from sqlalchemy import select

from precision_bisect.store.database import open_store
from precision_bisect.store.queue import TokenJournal
from precision_bisect.store.tables import TokenRow


def test_a_token_tells_its_user_until_it_is_revoked(url: str) -> None:
    sessions = open_store(url)
    tokens = TokenJournal(sessions)
    first, second, other = tokens.new("ada"), tokens.new("ada"), tokens.new("bob")
    assert len({first, second, other}) == 3
    assert [tokens.find_user(each) for each in (first, second, other)] == ["ada", "ada", "bob"]
    for wrong in ("", first[:-1], f"{first} ", "\udcff"):
        assert tokens.find_user(wrong) is None
    with sessions() as session:
        kept = session.scalars(select(TokenRow.digest)).all()
    assert not {*kept} & {first, second, other}
    assert tokens.revoke("ada") == 2
    assert tokens.revoke("ada") == 0
    assert [tokens.find_user(each) for each in (first, second, other)] == [None, None, "bob"]
