"""The bill of materials lists the lock: every package once, with its version and digests."""

import json

from tests.checks.environment import bill_of_materials, pins


def test_every_pin_is_listed_with_its_digests():
    document = json.loads(bill_of_materials())
    listed = {(part["name"], part["version"]) for part in document["components"]}
    locked = {
        (pin.split("==")[0].split("[")[0].lower().replace("_", "-").replace(".", "-"), pin.split("==")[1].split(" ")[0]) for pin in pins()
    }
    assert listed == locked and len(listed) > 100
    assert all(any(each["name"] == "sha256" for each in part["properties"]) for part in document["components"])
    assert document["bomFormat"] == "CycloneDX" and document["specVersion"] == "1.5"
