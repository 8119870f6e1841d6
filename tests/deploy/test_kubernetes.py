"""The files for Kubernetes: valid in strict form, whole as kustomizations, and in step with what the gateway's own settings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from gateway.cli import main
from gateway.config import loads
from gateway.server.own import PROBE_S
from gateway.server.run import LAST_WORDS_S
from gateway.settings import Settings

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
FOLDERS = ["sidecar", "fleet"]
KEYS = {"OPENAI_API_KEY": "k", "TEAM_A_KEY_SHA256": "0" * 64}


def kustomization(folder: str) -> dict[str, Any]:
    found = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
    assert isinstance(found, dict)
    return found


def resources(folder: str) -> list[dict[str, Any]]:
    """What the kustomization applies, without what it generates."""
    names = kustomization(folder)["resources"]
    return [each for name in names for each in yaml.safe_load_all((KUBERNETES / folder / name).read_text())]


def of_kind(folder: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in resources(folder) if each["kind"] == kind]


def pod(folder: str) -> dict[str, Any]:
    """The one with the gateway in it."""
    (found,) = [each["spec"]["template"] for each in of_kind(folder, "Deployment") if gateway_of(each["spec"]["template"]["spec"])]
    assert isinstance(found, dict)
    return found


def gateway_of(spec: dict[str, Any]) -> dict[str, Any] | None:
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    return next((each for each in containers if each["image"] == "decluster"), None)


def gateway(folder: str) -> dict[str, Any]:
    found = gateway_of(pod(folder)["spec"])
    assert found is not None
    return found


def settings(folder: str) -> Settings:
    return loads((KUBERNETES / folder / "decluster.yaml").read_text(), KEYS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_valid_in_strict_form(folder: str) -> None:
    files = [str(KUBERNETES / folder / name) for name in kustomization(folder)["resources"]]
    validate = str(Path(sys.executable).with_name("kubernetes-validate"))
    done = subprocess.run([validate, "--strict", *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_kustomization_names_every_file_and_what_the_files_name(folder: str) -> None:
    said = kustomization(folder)
    (generated,) = said["configMapGenerator"]
    there = {path.name for path in (KUBERNETES / folder).iterdir()}
    assert {*said["resources"], *generated["files"], "kustomization.yaml"} == there
    (volume,) = [each for each in pod(folder)["spec"]["volumes"] if "configMap" in each]
    assert volume["configMap"]["name"] == generated["name"]
    (mount,) = [each for each in gateway(folder)["volumeMounts"] if each["name"] == volume["name"]]
    assert gateway(folder)["args"][:3] == ["serve", "--config", f"{mount['mountPath']}/{generated['files'][0]}"]
    (image,) = said["images"]
    assert image == {"name": "decluster", "newTag": __version__}


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_configuration_is_one_that_the_gateway_takes(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = gateway(folder)["args"]
    path = str(KUBERNETES / folder / "decluster.yaml")
    assert main([*argv[:2], path, *argv[3:], "--print-config"], KEYS) == 0, capsys.readouterr().err
    needed = {variable for variable in KEYS if variable in (KUBERNETES / folder / "decluster.yaml").read_text()}
    assert bool(needed) == bool(gateway(folder).get("envFrom"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pod_lives_longer_than_its_streams_may(folder: str) -> None:
    before = gateway(folder)["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed = before + settings(folder).shutdown.grace + LAST_WORDS_S
    assert needed < pod(folder)["spec"]["terminationGracePeriodSeconds"]


def test_the_service_has_forgotten_a_pod_before_it_stops_taking_requests() -> None:
    ready = gateway("fleet")["readinessProbe"]
    assert gateway("fleet")["lifecycle"]["preStop"]["sleep"]["seconds"] >= ready["periodSeconds"] + ready["timeoutSeconds"]
    (deployment,) = [each for each in of_kind("fleet", "Deployment") if each["metadata"]["name"] == "decluster"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_probes_ask_where_it_listens_and_wait_as_long_as_it_may_take(folder: str) -> None:
    listen = settings(folder).listen
    container = gateway(folder)
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container.get(name)
        if probe is None:
            assert (folder, name) == ("sidecar", "readinessProbe")  # the pod's own readiness is the application's
        elif "httpGet" in probe:
            assert listen.host == "0.0.0.0"  # noqa: S104 - the kubelet comes from outside of the pod
            (port,) = [port["containerPort"] for port in container["ports"] if port["name"] == probe["httpGet"]["port"]]
            assert port == listen.port
            assert probe["httpGet"]["path"] == ("/readyz" if name == "readinessProbe" else "/healthz")
        else:
            assert listen.host == "127.0.0.1"
            code = probe["exec"]["command"][2]
            compile(code, name, "exec")
            assert f"'127.0.0.1', {listen.port}" in code
    if "readinessProbe" in container:
        assert container["readinessProbe"]["timeoutSeconds"] > PROBE_S


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_runs_as_root_or_writes_or_takes_all_the_memory(folder: str) -> None:
    for deployment in of_kind(folder, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context.get("runAsUser", spec["securityContext"].get("runAsUser", 0)) > 0
            assert "memory" in container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])


def test_replicas_share_what_has_to_be_shared_by_a_redis_that_is_there() -> None:
    shared = settings("fleet")
    (service,) = [each for each in of_kind("fleet", "Service") if each["metadata"]["name"] == "redis"]
    for url in (shared.admission.redis, shared.resume.redis):
        assert url is not None
        assert url.startswith(f"redis://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/")


@pytest.mark.parametrize("folder", FOLDERS)
def test_selectors_select_something(folder: str) -> None:
    pods = [each["spec"]["template"]["metadata"]["labels"] for each in of_kind(folder, "Deployment")]
    selectors = [each["spec"]["selector"] for each in of_kind(folder, "Service")]
    selectors += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(folder, "NetworkPolicy")]
    selectors += [
        each["spec"]["selector"]["matchLabels"] for each in of_kind(folder, "PodDisruptionBudget") + of_kind(folder, "Deployment")
    ]
    assert selectors
    for selector in selectors:
        assert any(selector.items() <= labels.items() for labels in pods), selector
