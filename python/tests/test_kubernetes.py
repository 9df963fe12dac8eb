"""The manifests of docs/kubernetes are as Kubernetes' own schemas say, strictly, and name options that there are."""

import pathlib
import subprocess

import kubernetes_validate
import pytest
import yaml
from conftest import command

MANIFESTS = sorted((pathlib.Path(__file__).parents[2] / "docs/kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path):
    resources = list(yaml.safe_load_all(path.read_text()))
    assert len(resources) > 1
    for resource in resources:
        for version in ("1.30", "1.33"):
            kubernetes_validate.validate(resource, version, strict=True)


def test_commands_have_the_options():
    containers = [
        container
        for path in MANIFESTS
        for resource in yaml.safe_load_all(path.read_text())
        for container in resource["spec"].get("template", {}).get("spec", {}).get("containers", [])
    ]
    assert len(containers) == 3
    for container in containers:
        words = container["args"]
        shown = subprocess.run([command(), *words[:2], "--help"], check=True, capture_output=True, text=True).stdout
        options = [word.split("=")[0] for word in words if word.startswith("--")]
        assert options
        for option in options:
            assert option in shown, f"{words[:2]} has no {option}"
