"""The files for Prometheus and Grafana with a real Prometheus: valid, true to their own tests, and every query finds data of a real gateway."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.metrics.metrics import Metrics
from support.gateway import Running, serving, settings_for
from support.programs import program
from support.redis import free_port
from support.simulated import simulated
from support.upstream import SAFETY_S

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "decluster.json").read_text())
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]

pytestmark = pytest.mark.anyio


def promtool(*arguments: str) -> None:
    done = subprocess.run([program("promtool", "prometheus"), *arguments], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_its_rules_are_valid() -> None:
    promtool("check", "config", "prometheus.yml")


def test_the_alerts_are_raised_by_trouble_and_by_nothing_else() -> None:
    promtool("test", "rules", "alerts.test.yml")


def test_each_alert_says_what_to_do() -> None:
    rules = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"][0]["rules"]
    assert len(rules) >= 6
    for rule in rules:
        assert len(rule["annotations"]["action"]) > 40, rule["alert"]


class Prometheus:
    def __init__(self, port: int) -> None:
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        answer = await self.client.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        assert answer.status_code == 200, (expression, answer.text)
        return list(answer.json()["data"]["result"])

    async def until(self, expression: str) -> list[dict[str, Any]]:
        """Ask until there is something; scrapes come when they come."""
        async with asyncio.timeout(3 * SAFETY_S):
            while not (found := await self.query(expression)):
                await asyncio.sleep(0.1)
        return found


@asynccontextmanager
async def prometheus(gateway_port: int, folder: Path) -> AsyncIterator[Prometheus]:
    """Scraping the gateway each second."""
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{gateway_port}"]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    options = [
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program("prometheus"), *options, stdout=log, stderr=log)
        server = Prometheus(port)
        try:
            async with asyncio.timeout(3 * SAFETY_S):
                while True:
                    assert process.returncode is None, (folder / "log").read_text()
                    try:
                        if (await server.client.get("/-/ready")).status_code == 200:
                            break
                    except httpx.TransportError:
                        pass
                    await asyncio.sleep(0.1)
            yield server
        finally:
            await server.client.aclose()
            process.kill()
            await process.wait()


async def stream(gateway: Running, model: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=3 * SAFETY_S) as client:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}], "stream_options": {"include_usage": True}}
        headers = {"x-simulate-speed": "20"}
        answer = await client.post(f"http://127.0.0.1:{gateway.port}/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200
        await answer.aread()


async def test_every_query_of_the_dashboard_finds_data(tmp_path: Path) -> None:
    with simulated() as upstream:
        settings = settings_for(upstream, heartbeat={"every": 0.05}, upstream={"models": ("clusters", "tool-call")})
        async with serving(settings) as gateway, prometheus(gateway.port, tmp_path) as server:
            await server.until('up{job="decluster"} == 1')
            for model in ("clusters", "tool-call", "silent-5"):
                await stream(gateway, model)
            whole = 'increase(decluster_stream_end_total{reason="whole"}[30s]) > 0'
            await server.until("sum(decluster_stream_end_total) == 3")
            await stream(gateway, "clusters")  # what was never there before has no increase yet
            await stream(gateway, "tool-call")
            await stream(gateway, "silent-5")
            await server.until(whole)
            missing = []
            for query in QUERIES:
                expression = query.replace('job=~"$job"', 'job="decluster"').replace("$__rate_interval", "30s")
                assert "$" not in expression, f"a variable that the test does not know: {query}"
                try:
                    await server.until(expression)
                except TimeoutError:
                    missing.append(query)
            assert missing == []
            rules = yaml.safe_load((RULES / "recording.yml").read_text())["groups"][0]["rules"]
            for rule in rules:
                await server.until(rule["record"])


def test_every_name_that_is_asked_for_is_one_that_the_gateway_counts() -> None:
    asked = set(
        re.findall(
            r"\b(?:decluster|gen_ai)_\w+",
            json.dumps(DASHBOARD) + (RULES / "alerts.yml").read_text() + (RULES / "recording.yml").read_text(),
        )
    )
    families = [*Metrics(lambda: 0, lambda: 0.0).registry.collect()]
    labels = {"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"}
    known = labels | {family.name for family in families}
    known |= {sample for family in families for sample in _names(family.name, family.type)}
    assert asked <= known, asked - known


def _names(name: str, kind: str) -> set[str]:
    return {"counter": {f"{name}_total"}, "histogram": {f"{name}_{part}" for part in ("bucket", "sum", "count")}}.get(kind, {name})
