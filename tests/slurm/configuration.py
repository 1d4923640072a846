"""What Slurm's configuration files say: one node with pretended GPUs, in two partitions, run by root, not accounted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

NODE = "pretended"
PARTITIONS = ("gpu", "cpu")
"""Both have the one node; a job says by its partition what it thinks it needs."""

# https://slurm.schedmd.com/slurm.conf.html. What is unusual: everything runs as root, nothing is confined by cgroups
# (proctrack, task), nothing is accounted, and the node may have more processors and memory than the machine
# (config_overrides). A job gets a second between SIGTERM and SIGKILL (KillWait), and its limit is kept to the second.
_CONF = """\
ClusterName=ksmm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/task_prolog
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0,defer
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
MinJobAge=7200
KillWait=2
OverTimeLimit=0
GresTypes=gpu
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=gpu:{gpus} State=UNKNOWN
"""
_PARTITION = "PartitionName={name} Nodes={node} MaxTime=INFINITE State=UP\n"

# The lock that keeps two measurements on one CPU apart would hide what Slurm does with two jobs: one for each GPU.
_TASK_PROLOG = """\
#!/bin/sh
echo "export KSMM_LOCK_DIRECTORY={folder}/locks-${{CUDA_VISIBLE_DEVICES:-none}}"
"""


def write_configuration(
    folder: Path, *, host: str, gpus: int, cpus: int, memory_mb: int, controller_port: int, node_port: int
) -> None:
    """Writes slurm.conf, gres.conf and the prolog of tasks, and makes the devices that pretend to be GPUs.

    Args:
        folder: of all that the daemons write.
        host: the name of this machine.
        gpus: how many are pretended.
        cpus: processors of the node, which may be more than the machine has.
        memory_mb: its memory in megabytes, likewise.
        controller_port: TCP port of slurmctld.
        node_port: of slurmd.
    """
    partitions = "".join(_PARTITION.format(name=name, node=NODE) for name in PARTITIONS)
    conf = _CONF.format(
        folder=folder,
        node=NODE,
        host=host,
        gpus=gpus,
        cpus=cpus,
        memory_mb=memory_mb,
        controller_port=controller_port,
        node_port=node_port,
    )
    (folder / "slurm.conf").write_text(conf + partitions)
    lines = []
    for number in range(gpus):
        device = folder / f"gpu{number}"
        if not device.exists():
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        lines.append(f"NodeName={NODE} Name=gpu File={device}\n")
    (folder / "gres.conf").write_text("".join(lines))
    prolog = folder / "task_prolog"
    prolog.write_text(_TASK_PROLOG.format(folder=folder))
    prolog.chmod(0o755)
