#!/usr/bin/env python3
"""What the real varved says of itself over HTTP, and whether dashboard and alerts ask for it.

Usage: monitor_test.py PATH_OF_VARVED. Every daemon listens on ports that the system chooses.
"""
import json
import os
import re
import sys
import time
import unittest
import urllib.error
import urllib.request

import varved_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DASHBOARD = os.path.join(ROOT, "deploy", "grafana", "varve.json")
RULES = os.path.join(ROOT, "deploy", "prometheus", "varve.rules.yml")
MANUAL = os.path.join(ROOT, "docs", "OPERATIONS.md")
SUFFIXES = re.compile(r"_(bucket|sum|count)$")


def get(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def labels_of(text):
    """Of each metric, with its rows of a histogram."""
    labels = {}
    for name, given in re.findall(r"^(\w+)(?:{(.*)})? ", text, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', given))
    return labels


def names_of(text):
    return {line.split(" ")[2] for line in text.split("\n") if line.startswith("# TYPE")}


def asked_of_dashboard():
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def alerts():
    """Each alert's name, expression and lines, of a file that is written one key a line."""
    with open(RULES, encoding="utf-8") as file:
        blocks = re.split(r"^ +- alert: ", file.read(), flags=re.MULTILINE)[1:]
    expression = re.compile(r"^ +expr: (.*)$", re.MULTILINE)
    return [(block.split("\n")[0], expression.search(block).group(1), block) for block in blocks]


def unknown_of(expression, text):
    """What an expression asks for that the text does not have: names, and values of labels."""
    names = names_of(text)
    out = []
    for name, given in re.findall(r"\b(varve_[a-z0-9_]+)(?:{([^}]*)})?", expression):
        if name not in names and SUFFIXES.sub("", name) not in names:
            out.append(name)
        for pair in re.findall(r'\w+="[^"]*"', given):
            row = re.compile(rf"^{name}{{[^}}]*\b{re.escape(pair)}", re.MULTILINE)
            if not row.search(text):
                out.append(f"{name}{{{pair}}}")
    return out


class MonitorTest(unittest.TestCase):
    setUp = varved_test.VarvedTest.setUp
    tearDown = varved_test.VarvedTest.tearDown
    refused = varved_test.VarvedTest.refused
    start_daemon = varved_test.VarvedTest.start

    def start(self):
        daemon = self.start_daemon("--http", "127.0.0.1:0", "--control", "127.0.0.1:0")
        self.assertTrue(daemon.wait_log("metrics at http://"), daemon.log())
        address = re.search(r"metrics at http://([0-9.:]+)/metrics", daemon.log()).group(1)
        for _ in range(100):  # the control plane comes last, and its numbers with the next look
            if "varve_control_connections" in get(address, "/metrics")[1]:
                return daemon, address
            time.sleep(0.1)
        self.fail("no numbers of the control plane")

    def wait_code(self, address, path, code):
        for _ in range(100):
            seen, text = get(address, path)
            if seen == code:
                return text
            time.sleep(0.1)
        self.fail(f"{path} says {seen}: {text}")

    def test_numbers_and_probes(self):
        _, address = self.start()
        self.assertEqual(self.wait_code(address, "/readyz", 200), "ok\n")
        self.assertEqual(get(address, "/healthz"), (200, "ok\n"))
        code, text = get(address, "/metrics")
        self.assertEqual(code, 200)
        self.assertIn("# TYPE varve_match_ids_total counter\n", text)
        self.assertIn('varve_target_ok_shards{target="1"} ', text)
        self.assertIn("varve_sessions_limit 256\n", text)
        self.assertIn("varve_index_blocks_limit ", text)
        with open(os.path.join(self.data, "metrics.prom"), encoding="utf-8") as file:
            self.assertEqual(names_of(file.read()), names_of(text))
        self.assertEqual(get(address, "/")[0], 404)

    def test_an_address_that_is_taken_ends_the_start(self):
        _, address = self.start()
        other = os.path.join(self.folder.name, "other")
        text = self.refused(3, "--data", other, "--listen", "127.0.0.1:0", "--http", address,
                            *varved_test.SMALL)
        self.assertIn(f"--http {address}: cannot listen there", text)

    def test_a_target_whose_file_is_deleted_has_failed(self):
        _, address = self.start()
        os.unlink(os.path.join(self.data, "target-1.dat"))
        for _ in range(100):
            text = get(address, "/metrics")[1]
            if 'varve_target_ok_shards{target="1"} 0\n' in text:
                break
            time.sleep(0.1)
        else:
            self.fail(text)
        self.assertIn('varve_target_ok_shards{target="0"} ', text)
        self.assertNotIn('varve_target_ok_shards{target="0"} 0\n', text)
        self.assertIn("its file was deleted", self.daemons[0].log())

    def test_the_dashboard_asks_for_numbers_that_there_are(self):
        _, address = self.start()
        text = get(address, "/metrics")[1]
        asked = asked_of_dashboard()
        self.assertGreater(len(asked), 20)
        for expression in asked:
            self.assertEqual(unknown_of(expression, text), [], expression)
        self.assertEqual(unknown_of('varve_x{a="b"} + varve_degraded{reason="x"}', text),
                         ["varve_x", 'varve_x{a="b"}', 'varve_degraded{reason="x"}'])

    def test_the_dashboard_can_be_narrowed_to_nodes_and_domains(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            variables = {each["name"] for each in json.load(file)["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "instance", "domain"})
        for expression in asked_of_dashboard():
            for name, given in re.findall(r"\b(varve_[a-z0-9_]+)(?:{([^}]*)})?", expression):
                self.assertIn('instance=~"$instance"', given, expression)
                if name.startswith("varve_domain_"):
                    self.assertIn('domain=~"$domain"', given, expression)

    def test_what_the_manual_has_an_operator_watch_is_on_the_dashboard(self):
        asked = " ".join(asked_of_dashboard())
        for name in ("varve_recovering", "varve_target_missed", "varve_recovered_dropped_total",
                     "varve_flash_dropped_total", "varve_target_fragments",
                     "varve_evict_skipped_total", "varve_flash_kills_live",
                     "varve_target_scrub_pass_done_bytes", "varve_sessions_limit",
                     "varve_index_blocks_limit",
                     "varve_session_hellos_refused_total", "varve_session_slow_total",
                     "varve_reactor_standstills_total", "varve_push_lost_writes_total",
                     "varve_files_age_seconds", "varve_control_connections"):
            self.assertIn(name, asked)

    def test_alerts_ask_for_numbers_that_there_are(self):
        _, address = self.start()
        text = get(address, "/metrics")[1]
        labels = labels_of(text)
        self.assertGreater(len(alerts()), 5)
        for name, expression, block in alerts():
            self.assertEqual(unknown_of(expression, text), [], name)
            there = {"instance"}.union(*(by.split(", ") for by in
                                         re.findall(r"\bby \(([^)]*)\)", expression)))
            first = re.search(r"\bvarve_\w+", expression)
            if first and not expression.startswith(("sum", "max")):
                there |= labels[first.group()]
            for label in re.findall(r"\$labels\.(\w+)", block):
                self.assertIn(label, there, name)
            self.assertRegex(block, r"labels: {severity: (page|ticket)}\n")

    def test_the_manual_says_of_each_alert_what_to_do(self):
        with open(MANUAL, encoding="utf-8") as file:
            manual = file.read()
        rows = re.search(r"\n## Alerts\n(.*?)\n## ", manual, re.DOTALL).group(1)
        self.assertEqual(re.findall(r"^\| `(Varve\w+)` \|", rows, re.MULTILINE),
                         [name for name, _, _ in alerts()])
        for name, _, block in alerts():
            self.assertIn(f'runbook: "OPERATIONS.md, Alerts, {name}"\n', block)

    def test_the_rules_are_yaml(self):
        try:
            import yaml  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("PyYAML is not installed")
        with open(RULES, encoding="utf-8") as file:
            rules = yaml.safe_load(file)["groups"][0]["rules"]
        self.assertEqual([(rule["alert"], rule["expr"]) for rule in rules],
                         [(name, expression) for name, expression, _ in alerts()])

    def test_the_curves_of_the_dashboard_can_be_told_apart(self):
        _, address = self.start()
        labels = labels_of(get(address, "/metrics")[1])
        with open(DASHBOARD, encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        for panel in panels:
            legends = set()
            for target in panel.get("targets", []):
                expression = target["expr"]
                name = re.search(r"\bvarve_\w+", expression).group()
                legend = target["legendFormat"].replace("{{__name__}}", name)
                self.assertNotIn(legend, legends, panel["title"])
                legends.add(legend)
                grouped = re.findall(r"\bby \(([^)]*)\)", expression)
                there = {"instance"}.union(*(by.split(", ") for by in grouped))
                if not grouped:
                    there |= labels[name]
                for label in re.findall(r"{{(\w+)}}", legend):
                    self.assertIn(label, there, f"{legend} of {expression}")


if __name__ == "__main__":
    varved_test.VARVED = os.path.abspath(sys.argv.pop(1))
    unittest.main()
