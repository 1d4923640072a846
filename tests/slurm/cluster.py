"""A real Slurm on this machine: munged, slurmctld and one slurmd, with pretended GPUs and no accounting database.

    python tests/slurm/cluster.py start FOLDER    # prints the line that makes sbatch, squeue ... speak to it
    python tests/slurm/cluster.py stop FOLDER

It needs root and Debian's packages slurm-wlm and munge, but no systemd. All that it writes is in FOLDER, so that
several can run side by side. A pretended GPU is a device file that nobody computes on: Slurm hands it out as it does
real ones, and sets CUDA_VISIBLE_DEVICES to its number.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # as a script

from tests.slurm.configuration import NODE, write_configuration

_PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
_PID_FILES = {"slurmd": "slurmd.pid", "slurmctld": "slurmctld.pid", "munged": "munge/pid"}
_LOGS = {"slurmd": "slurmd.log", "slurmctld": "slurmctld.log", "munged": "munge/log"}
_PATIENCE_S = 300.0


class ClusterError(RuntimeError):
    """The Slurm could not be started; the message holds the end of the log of what failed."""


def reason_absent() -> str | None:
    """None if a Slurm can be started here, else why not."""
    missing = [name for name in _PROGRAMS if _find(name) is None]
    if missing:
        return f"{', '.join(missing)} not found (Debian packages slurm-wlm and munge)"
    if os.geteuid() != 0:
        return "a Slurm of our own can only be started by root"
    return None


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin")


@dataclass(frozen=True)
class Cluster:
    """A Slurm whose files are in `folder`: one node with `gpus` pretended GPUs and `cpus` processors."""

    folder: Path
    gpus: int = 2
    cpus: int = 4
    memory_mb: int = 64000

    @property
    def environment(self) -> dict[str, str]:
        """What to set in a process's environment, so that sbatch, squeue ... speak to this Slurm."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Writes the configuration, starts the daemons, and waits for the node to be idle.

        Raises:
            ClusterError: see its message.
        """
        reason = reason_absent()
        if reason is not None:
            raise ClusterError(reason)
        self._write_files()
        self._start_munge()
        self.start_controller()
        self._run([_find("slurmd"), "-N", NODE, "-f", self.folder / "slurm.conf"], log="slurmd")
        self._wait(lambda: self.node_state() == "idle", "the node is not idle", log="slurmd")

    def stop(self) -> None:
        """Ends the jobs, then the daemons; what is not running is passed over."""
        with contextlib.suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
            if self.pid("slurmctld") is not None:
                self.cancel(*self.jobs())
                self._wait(lambda: not self.jobs(), "jobs do not end", log="slurmctld")
        for name in _PID_FILES:
            self._end(name)

    def start_controller(self) -> None:
        """Starts slurmctld and waits until it answers."""
        self._run([_find("slurmctld"), "-f", self.folder / "slurm.conf"], log="slurmctld")
        self._wait(self._controller_answers, "slurmctld does not answer", log="slurmctld")

    def stop_controller(self) -> None:
        """Ends slurmctld; jobs go on running, and it takes them up again when it is started."""
        self._end("slurmctld")

    def jobs(self, *states: str) -> list[str]:
        """Numbers of the jobs in these states; without any, of those that are queued or running."""
        chosen = [f"--states={','.join(states)}"] if states else []
        return self.command("squeue", "--noheader", "--format=%i", *chosen).split()

    def cancel(self, *jobs: str) -> None:
        """Cancels jobs by their numbers; those that have ended are passed over."""
        if jobs:
            self.command("scancel", "--quiet", *jobs)

    def suspend(self, *jobs: str) -> None:
        """Stops running jobs, by their numbers, where they are."""
        self.command("scontrol", "suspend", ",".join(jobs))

    def drain(self) -> None:
        """Has the node take no more jobs; those that run go on."""
        self.command("scontrol", "update", f"NodeName={NODE}", "State=DRAIN", "Reason=test")

    def resume(self) -> None:
        """Has the node take jobs again."""
        # right after its restart the controller refuses, not having heard from the node yet, but does it all the same
        with contextlib.suppress(subprocess.CalledProcessError):
            self.command("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
        self._wait(lambda: not self.node_state().startswith("drain"), "the node is drained", log="slurmctld")

    def node_state(self) -> str:
        """What sinfo says of the node: idle, mixed, draining ..."""
        return self.command("sinfo", "--noheader", "--nodes", NODE, "--format=%T").strip().rstrip("*")

    def command(self, *arguments: str) -> str:
        """Runs one of Slurm's commands on this Slurm and returns what it printed.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            arguments, env=environment, check=True, text=True, stdout=subprocess.PIPE, timeout=_PATIENCE_S
        ).stdout

    def pid(self, name: str) -> int | None:
        """The process of a daemon of this Slurm, None if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / _PID_FILES[name]).read_text())
            # a number alone may be another process's by now
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            return pid if name.encode() in command and str(self.folder).encode() in command else None
        return None

    def _write_files(self) -> None:
        for name in (".", "state", "spool", "munge"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        controller_port, node_port = _free_ports(2)
        write_configuration(
            self.folder,
            host=socket.gethostname().split(".")[0],
            gpus=self.gpus,
            cpus=self.cpus,
            memory_mb=self.memory_mb,
            controller_port=controller_port,
            node_port=node_port,
        )

    def _start_munge(self) -> None:
        """Starts munged as its own user, which its key, its socket and their folder must belong to."""
        folder = self.folder / "munge"
        key = folder / "munge.key"
        if not key.exists():
            subprocess.run([_find("mungekey"), "--create", f"--keyfile={key}"], check=True)
        for path in (folder, key):
            shutil.chown(path, "munge", "munge")
        folder.chmod(0o711)
        places = {"key-file": key, "socket": folder / "socket", "pid-file": folder / "pid"}
        places |= {"log-file": folder / "log", "seed-file": folder / "seed"}
        options = [f"--{name}={path}" for name, path in places.items()]
        self._run([_find("munged"), *options], log="munged", user="munge", group="munge")

    def _run(self, command: list[str | Path], log: str, **options) -> None:
        """Starts a daemon, which returns when it is in the background."""
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", check=False, **options
        )
        if done.returncode != 0:
            raise ClusterError(f"{command[0]} failed: {done.stdout}\n{self._last_words(log)}")

    def _controller_answers(self) -> bool:
        try:
            return "UP" in self.command("scontrol", "ping")
        except subprocess.CalledProcessError:
            return False

    def _wait(self, condition, complaint: str, log: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise ClusterError(f"{complaint} after {_PATIENCE_S:g} s\n{self._last_words(log)}")
            time.sleep(0.2)

    def _last_words(self, log: str) -> str:
        path = self.folder / _LOGS[log]
        return "".join(path.read_text(errors="replace").splitlines(keepends=True)[-20:]) if path.exists() else ""

    def _end(self, name: str) -> None:
        pid = self.pid(name)
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        self._wait(lambda: self.pid(name) is None, f"{name} does not end", log=name)


def _free_ports(count: int) -> list[int]:
    """TCP ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def main() -> None:
    """Command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument("folder", type=lambda text: Path(text).absolute())
    parser.add_argument("--gpus", type=int, default=2)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder, gpus=arguments.gpus)
    if arguments.action == "stop":
        cluster.stop()
        return
    try:
        cluster.start()
    except ClusterError as error:
        sys.exit(str(error))
    sys.stdout.write(f"export SLURM_CONF={cluster.folder}/slurm.conf\n")


if __name__ == "__main__":
    main()
