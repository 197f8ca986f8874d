from nsac.lab.grid.provenance import LIBRARIES, commit, machine, provenance, versions


def test_provenance_has_the_fields_of_a_record():
    assert set(provenance()) == {"commit", "versions", "machine", "made"}


def test_a_machine_is_described_without_identifying_it():
    assert set(machine()) <= {"system", "architecture", "cores", "processor"}


def test_a_commit_is_a_hash_or_none():
    assert commit() is None or len(commit().rstrip("+")) == 40


def test_versions_are_of_python_and_of_the_libraries_behind_the_results():
    assert set(versions()) == {"python", *LIBRARIES}
