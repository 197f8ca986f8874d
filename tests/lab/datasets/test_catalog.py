import pytest

from nsac.lab.datasets import Source, catalog
from nsac.lab.datasets.catalog import File, file

WITHOUT_CHECKSUM = "jena-2009-2016"


@pytest.mark.parametrize("name", catalog())
def test_every_source_has_a_description_a_citation_a_licence_and_a_homepage(name):
    source = catalog()[name]
    assert all((source.description, source.citation, source.licence, source.homepage))


@pytest.mark.parametrize("name", catalog())
def test_every_file_has_a_size_a_checksum_and_a_relative_path(name):
    for entry in catalog()[name].files:
        assert entry.size > 0 and (len(entry.sha256) == 64 or name == WITHOUT_CHECKSUM)
        assert not entry.path.startswith("/") and ".." not in entry.path


def test_a_file_is_found_by_its_path():
    assert file("boston/splits.npz").generated and not file("boston/boston.txt").generated


def test_a_source_has_the_size_of_its_files():
    source = Source("s", "d", "c", "l", "h", (File("a", 2), File("b", 3)))
    assert source.size == 5


@pytest.mark.parametrize(("name", "downloadable"), [("boston", True), ("udacity", False), ("pronostia-raw", False)])
def test_a_source_is_downloadable_if_every_file_has_a_url(name, downloadable):
    assert catalog()[name].downloadable == downloadable
