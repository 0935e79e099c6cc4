"""Tokens without a tokenizer."""

from trioroute.engine.tokens import answer_text, block_digests, count_tokens, token_ids


def test_four_bytes_are_one_token_rounded_up() -> None:
    assert [count_tokens(text) for text in (b"", b"a", b"abcd", b"abcde")] == [1, 1, 1, 2]
    assert len(token_ids(b"abcde")) == 2
    assert token_ids(b"abcdabcd")[0] == token_ids(b"abcdabcd")[1]


def test_an_answer_sent_back_counts_as_the_tokens_it_was() -> None:
    assert count_tokens(answer_text(0, b"hi", 37).encode()) == 37


def test_answers_depend_on_seed_and_prompt_only() -> None:
    assert answer_text(1, b"hi", 9) == answer_text(1, b"hi", 9)
    assert answer_text(1, b"hi", 9) != answer_text(2, b"hi", 9)
    assert answer_text(1, b"hi", 9) != answer_text(1, b"ho", 9)
    assert answer_text(1, b"hi", 9).startswith(answer_text(1, b"hi", 4))


def test_a_block_digest_covers_everything_before_its_block() -> None:
    one = block_digests(b"a" * 64 + b"b" * 64 + b"rest", 16)
    other = block_digests(b"x" * 64 + b"b" * 64, 16)
    assert len(one) == len(other) == 2
    assert one[1] != other[1]
    assert block_digests(b"a" * 64 + b"c" * 64, 16)[0] == one[0]
