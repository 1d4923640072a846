"""The hash of what is known of a device, by which a record says how it was tuned."""

from __future__ import annotations

from collections.abc import Callable

from ksmm.tuning import knowledge, remembered_hash, write_tuning
from tests.tuning.conftest import ENTRY, entry, tuning_file


def hash_now() -> str:
    present = tuning_file()
    return remembered_hash(present.device, present.device_name)


def test_it_changes_with_choices_and_not_with_times(remember: Callable) -> None:
    assert hash_now() == ""
    hashes = []
    for found in (ENTRY, entry(configuration_ms=0.5), entry(configuration="slow tile"), entry(last_batch=30)):
        remember(found)
        hashes.append(hash_now())
    assert [len(found) for found in hashes] == [16] * 4
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_it_does_not_depend_on_which_file_knows(remember: Callable) -> None:
    more = entry(layout="batch_last")
    remember(ENTRY, more)
    both = hash_now()
    write_tuning(knowledge.SHIPPED / f"{tuning_file().device}.json", tuning_file(ENTRY))
    remember(more)
    assert hash_now() == both


def test_what_is_of_another_device_does_not_count(remember: Callable) -> None:
    remember(ENTRY)
    assert remembered_hash(tuning_file().device, "Difference Engine") == ""
