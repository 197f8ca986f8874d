"""Write the software bill of materials (CycloneDX 1.5) and the licences of what `pip install nsac` installs.

Read from the metadata of the environment that runs it: `nsac` and its dependencies, without extras.

    python tools/sbom.py dist
"""

import argparse
import json
import re
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "nsac"
MAX_LICENCE_CHARACTERS = 60
"""A longer field `License` is the text of the licence, not its name."""


def requirements(found: Distribution) -> list[str]:
    """Canonical names of the packages that a distribution needs on this machine, without extras."""
    needed = map(Requirement, found.requires or ())
    return sorted({canonicalize_name(r.name) for r in needed if not r.marker or r.marker.evaluate({"extra": ""})})


def closure(name: str) -> dict[str, Distribution]:
    """A distribution and all it needs, by canonical name."""
    found, todo = {}, [name]
    while todo:
        if (each := todo.pop()) not in found:
            found[each] = distribution(each)
            todo += requirements(found[each])
    return dict(sorted(found.items()))


def licence(found: Distribution) -> str:
    """Licence of a distribution as its metadata states it."""
    metadata = found.metadata
    stated = metadata.get("License") or ""
    if len(stated) > MAX_LICENCE_CHARACTERS or "\n" in stated:
        stated = ""
    classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")]
    named = ", ".join(text.split(" :: ")[-1] for text in classifiers)
    return metadata.get("License-Expression") or stated or named or "see its files"


def bill(packages: dict[str, Distribution]) -> dict:
    """The bill of materials as plain values; no time and no random number, so equal environments have equal bills."""

    def component(name: str) -> dict:
        found = packages[name]
        url = f"pkg:pypi/{name}@{re.sub('[+]', '%2B', found.version)}"
        facts = {"type": "library", "bom-ref": url, "name": name, "version": found.version, "purl": url}
        return facts | {"licenses": [{"license": {"name": licence(found)}}]}

    components = {name: component(name) for name in packages}
    links = [
        {"ref": components[name]["bom-ref"], "dependsOn": [components[n]["bom-ref"] for n in requirements(found)]}
        for name, found in packages.items()
    ]
    main = components.pop(PACKAGE)
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": main}}
    return head | {"components": list(components.values()), "dependencies": links}


def main() -> None:
    """Write `sbom.json` and `licences.csv`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder to write to")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    packages = closure(PACKAGE)
    (folder / "sbom.json").write_text(json.dumps(bill(packages), indent=1) + "\n", encoding="utf-8")
    rows = [f'{name},{found.version},"{licence(found)}"' for name, found in packages.items()]
    (folder / "licences.csv").write_text("\n".join(["package,version,licence", *rows]) + "\n", encoding="utf-8")
    print(f"{folder / 'sbom.json'} and {folder / 'licences.csv'}: {len(packages)} packages")


if __name__ == "__main__":
    main()
