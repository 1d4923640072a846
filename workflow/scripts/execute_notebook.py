"""Executes a notebook on one dtype of a table, and writes it with its outputs, as .ipynb and as .html.

python workflow/scripts/execute_notebook.py notebooks/layout_study.ipynb --table results/cpu-x86_64/time.csv \
    --device cpu-x86_64 --dtype float32 --output results/cpu-x86_64/notebooks/layout_study-float32.ipynb
"""

import argparse
import json
import os
import sys
from pathlib import Path

import jsonschema
import nbformat
import papermill
from nbconvert import HTMLExporter

SCHEMA = Path(__file__).resolve().parents[1] / "schemas" / "notebook.schema.json"


def main() -> None:
    """Command line of this script; exit status 1 where a cell of the notebook fails."""
    arguments = parse_arguments()
    failed = arguments.output.with_suffix(".failed.ipynb")
    # Seen from the notebook's own folder, where it runs: what is published says nothing about the machine.
    parameters = {
        "table": os.path.relpath(arguments.table, arguments.output.parent),
        "device": arguments.device,
        "dtype": arguments.dtype,
        "layout": arguments.layout,
        "output": ".",
    }
    fault = parameter_fault(parameters)
    if fault is not None:
        sys.exit(f"{arguments.notebook} cannot be executed: {fault}")
    failed.parent.mkdir(parents=True, exist_ok=True)
    try:
        papermill.execute_notebook(
            arguments.notebook,
            failed,
            taken(arguments.notebook, parameters),
            kernel_name="python3",
            progress_bar=False,
            cwd=str(failed.parent),
        )
    except papermill.PapermillExecutionError as error:
        sys.exit(f"{arguments.notebook} failed; the notebook up to the error is {failed}\n{error}")
    forget_folders(failed, arguments.notebook, arguments.output)
    write_html(failed, arguments.output.with_suffix(".html"))
    failed.replace(arguments.output)


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--table", type=Path, required=True, help="time.csv")
    parser.add_argument("--device", required=True, help="slug of the device, e.g. cpu-x86_64")
    parser.add_argument("--dtype", required=True, help="float32, float16 or bfloat16")
    parser.add_argument("--layout", choices=["batch_first", "batch_last", "both"], default="both")
    parser.add_argument("--output", type=Path, required=True, help=".ipynb file to write; the .html lies beside it")
    return parser.parse_args()


def taken(notebook: Path, parameters: dict[str, str]) -> dict[str, str]:
    """Those of the parameters that the notebook has: another would be in what is published, and mean nothing."""
    known = papermill.inspect_notebook(str(notebook))
    return {name: value for name, value in parameters.items() if name in known}


def parameter_fault(parameters: dict[str, str]) -> str | None:
    """None if the parameters fit workflow/schemas/notebook.schema.json, else which one does not."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for error in jsonschema.Draft202012Validator(schema).iter_errors(parameters):
        return f"parameter {'.'.join(map(str, error.path))}: {error.message}"
    return None


def forget_folders(executed: Path, notebook: Path, output: Path) -> None:
    """Leaves of the paths that papermill writes down the names of the files: folders are this machine's."""
    content = nbformat.read(executed, as_version=4)
    content.metadata["papermill"] |= {"input_path": notebook.name, "output_path": output.name}
    nbformat.write(content, executed)


def write_html(notebook: Path, path: Path) -> None:
    """Writes the notebook as one HTML file, without its code; text from the table cannot bring a script along."""
    exporter = HTMLExporter(
        exclude_input=True, exclude_input_prompt=True, exclude_output_prompt=True, sanitize_html=True
    )
    body, _ = exporter.from_notebook_node(nbformat.read(notebook, as_version=4))
    path.write_text(body, encoding="utf-8")


if __name__ == "__main__":
    main()
