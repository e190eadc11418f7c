"""The arrows of DESIGN §1: who may import whom, read from the syntax trees of all modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
OURS = {"console", "widgets", "remote", "tests"}
MAY_IMPORT = {"remote": {"remote"}, "widgets": {"widgets"}, "console": {"console", "widgets", "remote"}}
DRAWING = {"textual", "rich"}


def _modules(package: str) -> list[Path]:
    return sorted((REPO / package).rglob("*.py"))


def _imports(path: Path, *, module_level_only: bool) -> set[str]:
    """Top-level names that a file imports; `if TYPE_CHECKING:` blocks do not run and do not count."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.update(alias.name.split(".")[0] for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}: relative import"
                found.add((child.module or "").split(".")[0])
            elif (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and module_level_only) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test) and module_level_only
            ):
                continue
            elif isinstance(child, ast.Try) and module_level_only:
                # `try: import msgspec` with a fallback: optional, and the bare-Python test below proves it.
                guarded = any(
                    "ImportError" in ast.dump(h) or "ModuleNotFoundError" in ast.dump(h) for h in child.handlers
                )
                if not guarded:
                    visit(child)
            else:
                visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_packages_import_one_way(package: str) -> None:
    wrong = {
        str(path.relative_to(REPO)): sorted(names)
        for path in _modules(package)
        if (names := (_imports(path, module_level_only=False) & OURS) - MAY_IMPORT[package])
    }
    assert not wrong


def test_remote_imports_no_third_party_package_at_module_level() -> None:
    allowed = set(sys.stdlib_module_names) | {"remote"}
    wrong = {
        str(path.relative_to(REPO)): sorted(names)
        for path in _modules("remote")
        if (names := _imports(path, module_level_only=True) - allowed)
    }
    assert not wrong


def test_every_remote_module_imports_with_python_alone() -> None:
    names = ["remote." + p.stem for p in (REPO / "remote").glob("*.py") if p.stem not in ("__init__", "__main__")]
    code = (
        "import sys, importlib\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]: importlib.import_module(name)\n"
        "third = {m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'remote', '__main__'}\n"
        "print(sorted(n for n in third if not n.startswith('_')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", code, str(REPO), *names], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_command_line_needs_neither_textual_nor_asyncssh() -> None:
    code = (
        "import sys, console.cli\n"
        "print(sorted({'textual', 'asyncssh', 'asyncio', 'httpx', 'transformers'} & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=REPO)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize(
    "command", ["status", "trace", "watch", "logs", "doctor", "audit", "report", "kill", "restart"]
)
def test_a_command_without_a_screen_needs_no_textual(command: str) -> None:
    code = (
        f"import sys, console.cli, console.commands.{command}\n"
        "print(sorted({'textual', 'asyncssh'} & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=REPO)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_first_paint_waits_for_nothing_that_it_does_not_show() -> None:
    later = {"console.model", "console.ports", "console.rates", "console.alerts", "console.read_snapshot", "asyncssh"}
    code = f"import sys, console.app\nprint(sorted({later!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=REPO)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_asyncssh_is_imported_by_the_link_and_the_demo_server_alone() -> None:
    users = {
        str(path.relative_to(REPO))
        for path in [*_modules("console"), *_modules("widgets")]
        if "asyncssh" in _imports(path, module_level_only=False)
    }
    assert users == {"console/link.py", "console/link_hop.py", "console/link_library.py", "console/demo/server.py"}


def test_the_logic_draws_nothing() -> None:
    logic = ["model", "rates", "alerts", "controller", "rpc", "actions", "text", "trace_text", "plan_diff", "report"]
    wrong = {
        name: sorted(found)
        for name in logic
        if (path := REPO / "console" / f"{name}.py").exists()
        and (found := _imports(path, module_level_only=False) & DRAWING)
    }
    assert not wrong
