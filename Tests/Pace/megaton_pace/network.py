"""Machines of a scenario: network namespaces with a cable each to one switch, which is a bridge."""

import ctypes
import os
import signal
import subprocess
import time

from megaton_pace.result import Broken

_CLONE_NEWNET = 0x40000000
_PREFIX = "megaton-pace-"
_SUBNET = "10.77.0."
SWITCH = "switch"


class Network:
    """Machines that reach each other over one switch.

    The switch is in a namespace of this process, so that the network of the machine is left as it is. The namespaces
    have the process id in their names; those that a killed run left behind are removed by the next one.
    """

    def __init__(self):
        self.hosts = {}
        _remove_abandoned()
        if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
            raise Broken(f"no network namespace: {os.strerror(ctypes.get_errno())}; run it as root")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", SWITCH, "type", "bridge")
        run("ip", "address", "add", _SUBNET + "1/24", "dev", SWITCH)
        run("ip", "link", "set", SWITCH, "up")

    def add(self, name):
        """Adds a machine, and returns its address."""
        number = len(self.hosts) + 10
        host = Host(name, f"{_PREFIX}{os.getpid()}-{name}", f"port{number}", f"{_SUBNET}{number}")
        # Known before it exists, so that a half-made one is removed too.
        self.hosts[name] = host
        host.plug_in()
        return host

    def degrade(self, *arguments):
        """Adds latency and loss to all cables, in both directions. Returns why the kernel does not, or None."""
        for host in self.hosts.values():
            for prefix, device in (((), host.port), (host.prefix, "eth0")):
                command = [*prefix, "tc", "qdisc", "add", "dev", device, "root", "netem", *arguments]
                answer = subprocess.run(command, capture_output=True, text=True, check=False)
                if answer.returncode != 0:
                    return answer.stderr.strip().splitlines()[0]
        return None

    def remove(self):
        """Removes all machines with what still runs on them."""
        for host in self.hosts.values():
            host.remove()
        self.hosts = {}


class Host:
    """A machine."""

    def __init__(self, name, namespace, port, address):
        self.name, self.namespace, self.port, self.address = name, namespace, port, address
        self.prefix = ["ip", "netns", "exec", namespace]

    def plug_in(self):
        run("ip", "netns", "add", self.namespace)
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        run(*self.prefix, "ip", "address", "add", self.address + "/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run(*self.prefix, "ip", "link", "set", device, "up")
        run("ip", "link", "set", self.port, "up")
        self.heal()

    def cut(self):
        """Silence in both directions: frames go nowhere, and no connection is reset."""
        run("ip", "link", "set", self.port, "nomaster")

    def heal(self):
        run("ip", "link", "set", self.port, "master", SWITCH)

    def remove(self):
        _remove(self.namespace)


def run(*command):
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise Broken(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout


def _remove(namespace):
    """Ends the processes of a namespace of this run, and removes it with its cable."""
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    if listed.stdout.split():
        time.sleep(0.2)
    subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)


def _remove_abandoned():
    """Removes the namespaces of runs whose process does not exist any more."""
    for line in run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        pid = name.removeprefix(_PREFIX).split("-")[0]
        if name.startswith(_PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            _remove(name)
