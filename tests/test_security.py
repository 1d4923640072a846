"""What strangers hand over is data: nothing in the tree unpickles, evaluates or puts it into a shell's command."""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import subprocess
import sys
import tokenize

import nbformat
import pytest

from ksmm.measure.records import RecordError, read_record, write_record
from ksmm.networks.records import read_record as read_network_record
from tests.measure.sample_records import network_measurement, record_content
from tests.scripts import ROOT, load_script

SOURCES = sorted(path for part in ("ksmm", "workflow", "figures") for path in (ROOT / part).rglob("*.py"))
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
RULES = [ROOT / "Snakefile", *sorted(ROOT.glob("workflow/rules/*.smk"))]

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "pty", "commands"}
FORBIDDEN_CALLS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput"),
    *("subprocess.getstatusoutput", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "yaml.load_all"),
    *("pandas.read_pickle", "pd.read_pickle", "pandas.eval", "pd.eval", "asyncio.create_subprocess_shell"),
}
# What of a rule stands in a shell's command without being quoted: numbers, and words of which the schemas list all.
UNQUOTED = {
    *("params.patterns", "params.batch_size", "params.batch_sizes", "params.dtypes", "params.layouts", "params.layout"),
    *("params.implementations", "params.device_type", "params.jobs", "params.max_seconds", "wildcards.dtype"),
    *("params.busy_gpu_max_wait_s", "params.seconds"),
}


def dotted(node: ast.expr) -> str:
    """The name that is called: "torch.load" of torch.load(...)."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(code: str) -> list[str]:
    """What is forbidden in a piece of Python, each with its line."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in FORBIDDEN_MODULES]
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            given = {word.arg: getattr(word.value, "value", word.value) for word in node.keywords}
            careless = name == "torch.load" and given.get("weights_only") is not True
            shell = "shell" in given and given["shell"] is not False
            pickled = given.get("allow_pickle", False) is not False
            if name in FORBIDDEN_CALLS or careless or shell or pickled:
                found.append(f"{node.lineno}: {name}({', '.join(given)})")
    return found


@pytest.mark.parametrize(
    "code",
    [
        *("import pickle", "from joblib import load", "eval('1')", "os.system('ls')", "yaml.load(text)"),
        *("torch.load(path)", "torch.load(path, weights_only=False)", "subprocess.run('ls', shell=True)"),
        *("subprocess.run('ls', shell=quick)", "numpy.load(path, allow_pickle=True)", "x.y.eval\nexec(code)"),
    ],
)
def test_what_is_forbidden_is_found(code):
    assert len(faults(code)) == 1


def test_what_is_allowed_is_not():
    allowed = "torch.load(path, weights_only=True); json.loads(text); yaml.safe_load(text); model.eval(); re.compile(x)"
    assert faults(f"{allowed}; subprocess.run(command, shell=False)") == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_unpickles_evaluates_or_calls_a_shell(path):
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_notebook_does(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            lines = [line for line in cell.source.splitlines() if not line.startswith(("%", "!"))]
            assert not [line for line in cell.source.splitlines() if line.startswith("!")]
            assert faults("\n".join(lines)) == []


def placeholders(text: str) -> list[str]:
    """What the shell commands of a file of rules put in, without what is quoted."""
    commands = [lines for _, lines in re.findall(r"^( +)shell:\n((?:\1 {4}.*\n)+)", text, re.MULTILINE)]
    return [name for command in commands for name in re.findall(r"\{([^{}]*)\}", command) if not name.endswith(":q")]


def test_the_rules_quote_every_path_and_text():
    texts = [path.read_text(encoding="utf-8") for path in RULES]
    commands = sum(len(re.findall(r"\bshell:", text)) for text in texts)
    assert commands == sum(len(re.findall(r"^ +shell:\n", text, re.MULTILINE)) for text in texts) >= 10
    found = {name for text in texts for name in placeholders(text)}
    assert found <= UNQUOTED, f"quote these in their rules ({{{{...:q}}}}): {sorted(found - UNQUOTED)}"


@pytest.mark.parametrize("indent", ["    ", "        "])
def test_what_is_not_quoted_is_found_also_in_a_rule_below_an_if(indent):
    assert placeholders(f'{indent}shell:\n{indent}    "python {{input.x}} {{log:q}}"\n{indent}    "{{y}}"\n') == [
        "input.x",
        "y",
    ]


OWN_PYTHON = re.compile(r"^\s*(run|script|notebook|template_engine|wrapper|cwl)\s*:", re.MULTILINE)


def test_no_rule_runs_python_of_its_own():
    assert OWN_PYTHON.search("if x:\n\n    rule y:\n        run:\n            pass\n")
    for path in RULES:
        assert not OWN_PYTHON.search(path.read_text(encoding="utf-8")), path


def faults_of_rules(text: str) -> list[str]:
    """What is forbidden in the Python of a file of rules, which is no Python as a whole: word by word."""
    found = []
    kept = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    words = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in kept]
    code = " ".join(word.string for word in words if word.type != tokenize.STRING).replace(" . ", ".")
    found += [name for name in re.findall(r"([\w.]+) \(", code) if name in FORBIDDEN_CALLS | {"shell", "torch.load"}]
    found += [name for name in re.findall(r"\b(?:import|from) (\w+)", code) if name in FORBIDDEN_MODULES]
    return found + re.findall(r"\b(?:shell|allow_pickle) = (?!False)\w+", code)


@pytest.mark.parametrize(
    "line",
    [
        *("x = eval(config['x'])", "        exec(y)", "import pickle", "from joblib import load", "os.system('ls')"),
        *("    params: x=lambda wildcards: eval(wildcards.x)", "shell('ls {x}')", "y = torch.load(path)"),
        *("subprocess.run('ls', shell=True)", "numpy.load(path, allow_pickle = quick)", "yaml . load(text)"),
    ],
)
def test_what_is_forbidden_in_rules_is_found(line):
    assert len(faults_of_rules(f"rule x:\n    output:\n        'y',\n{line.lstrip()}\n")) == 1


def test_what_is_allowed_in_rules_is_not():
    assert (
        faults_of_rules("rule x:\n    shell:\n        'eval(x) shell(y)'\n# pickle, exec(x)\ny = json.loads(z)\n") == []
    )


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_the_python_of_the_rules_evaluates_nothing(path):
    assert faults_of_rules(path.read_text(encoding="utf-8")) == []


def test_a_config_cannot_make_objects(tmp_path):
    (tmp_path / "config.yaml").write_text(f"results: !!python/object/apply:pathlib.Path.touch [{tmp_path}/made]\n")
    command = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", tmp_path, "-n"]
    command += ["--configfile", tmp_path / "config.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Config file is not valid JSON or YAML" in done.stdout + done.stderr
    assert not (tmp_path / "made").exists()


@pytest.fixture(scope="module")
def execute_notebook():
    return load_script("workflow/scripts/execute_notebook.py")


PARAMETERS = {"table": "/a b/time.csv", "device": "cpu-x86_64", "dtype": "float32", "layout": "both", "output": "/a b"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("device", "x\"; import os; os.system('ls')"), ("device", 3), ("dtype", "float64"), ("layout", "")),
        *(("table", "time.pkl"), ("table", "a\nb.csv"), ("output", ""), ("more", "x")),
        *(("table", "/a/time.csv\n"), ("device", "cpu-x86_64\n"), ("output", "/a\n"), ("output", "\n")),
    ],
)
def test_a_parameter_of_another_type_or_form_is_refused(execute_notebook, name, value):
    assert execute_notebook.parameter_fault(PARAMETERS) is None
    assert repr(value) in execute_notebook.parameter_fault({**PARAMETERS, name: value}) or name == "more"


def test_a_text_of_a_stranger_is_no_script_in_the_page_of_a_notebook(execute_notebook, tmp_path):
    outputs = [
        nbformat.v4.new_output("display_data", {"text/markdown": "device <script>alert('planted')</script> x"}),
        nbformat.v4.new_output(
            "display_data", {"text/html": "<table><tr><td onclick='planted()'>kept</td></tr></table>"}
        ),
    ]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "x.ipynb")
    execute_notebook.write_html(tmp_path / "x.ipynb", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert "<script>alert" not in page
    assert "onclick" not in page
    assert "kept" in page


RECORDS = {
    "ksmm/measure/record.schema.json": (record_content, read_record),
    "ksmm/networks/record.schema.json": (
        lambda: record_content(measurements=[network_measurement().to_dict()]),
        read_network_record,
    ),
}
OF_A_TABLE = [
    *(("job",), ("device", "slug"), ("device", "name"), ("provenance", "kernel_hash")),
    *(("provenance", "software", "versions", "torch"), ("provenance", "software", "versions", "transformers")),
]


@pytest.mark.parametrize("schema", RECORDS)
def test_a_text_of_a_record_is_one_line(schema):
    schema = json.loads((ROOT / schema).read_text())
    for name in ("text", "line"):
        pattern = schema["$defs"][name]["pattern"]
        assert re.search(pattern, "a reason, *with* marks, ö and 中")
        for text in ("a reason\n.. raw:: html", "a reason\n", "a\rb", "a\x1b[31m", "a\x85b", "a\u2028b"):
            assert not re.search(pattern, text), repr(text)


@pytest.mark.parametrize("schema", RECORDS)
def test_a_record_cannot_bring_lines_into_a_report(schema, tmp_path):
    make, read = RECORDS[schema]
    write_record(tmp_path / "1x192x48x2.json", make())
    read(tmp_path / "1x192x48x2.json")
    entry = make()["measurements"][0]
    texts = [("measurements", 0, name) for name, value in entry.items() if isinstance(value, str) and name != "status"]
    assert ("measurements", 0, "reason") in texts
    for *path, last in [*OF_A_TABLE, *texts]:
        for planted in ("x\n.. raw:: html", "x\n"):
            content = make()
            part = functools.reduce(lambda part, key: part[key], path, content)
            part[last] = planted
            if last == "reason":
                content["measurements"][0] |= {"status": "failed", "samples_s": [], "runs_per_sample": 0}
                content["measurements"][0] |= {"median_s": None, "iqr_s": None, "protocol_met": None}
            write_record(tmp_path / "1x192x48x2.json", content)
            with pytest.raises(RecordError, match=rf"key .*{last}.*(does not match|is not one of)"):
                read(tmp_path / "1x192x48x2.json")
