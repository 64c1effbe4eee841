"""Sessions on remote hosts: with lock, clean-up and ownership as on this machine, and ledgers on this machine.

STATE/hosts/NAME has the ledger of the objects on a host, and the host's address. So the next session on that host, or
`lastro clean`, can remove objects that a lost connection or a crash left there, without the testbed file."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from lastro.errors import ConnectionLost, HostBusy, HostError, StoreError, TrialError
from lastro.host import facts
from lastro.host.base import Process
from lastro.host.connections import LOST, SshTarget
from lastro.host.files import OWNER_VARIABLE
from lastro.host.ledger import Ledger, OwnedObject, Session, enter_session, session
from lastro.host.lock import LockHolder, OnWait
from lastro.host.ssh import SshHost
from lastro.host.state_dirs import close_to_others
from lastro.host.undo import is_token

_LOCK_S = 20.0
_DAY_S = 86_400
_HOLDERS = "holders"  # in a ledger, instead of a session's token: owns the processes that may still hold the host
_FREE_S = 5  # for the kernel to end the killed processes
# Arguments: the purpose, the state directory, and the directory of the host's lock, which is common to all of these.
_HOLD = """umask 077; mkdir -p -- "$2" "$3" && exec 8>>"$2/lock" 9>>"$3/lock" || exit 3
chmod 600 -- "$2/lock" "$3/lock" || exit 3
take() {{ flock {how} "$1" || {{ echo "busy: $(cat "$2/lock")"; {else_}; }}; printf '%s' "$3" >"$2/lock"; }}
take 8 "$2" "$1"; take 9 "$3" "$1"
echo held; exec sleep infinity"""


@contextmanager
def remote_session(
    local: Session, target: SshTarget, purpose: str, wait: OnWait | None = None, directory: Path | None = None
) -> Iterator[Session]:
    """Hold a remote host, clean up after dead sessions there, and yield a session that owns what the block makes there.

    `local` is this machine's session. `wait` is called once if another Lastro holds the host. `directory` has the
    ledger; by default, it is STATE/hosts/NAME. Another one is for a host that ends with `local`, such as a guest.

    Raises: HostError when the host cannot be used; HostBusy when another Lastro holds it and `wait` is None."""
    directory = directory or local.ledger.state / "hosts" / re.sub(r"[^A-Za-z0-9_.@-]", "_", target.name)
    with ExitStack() as stack:
        ledger = stack.enter_context(closing(Ledger(directory)))
        defaults = asdict(SshTarget(""))  # left out of the file, since another version may not know a field
        values = {name: value for name, value in asdict(target).items() if value != defaults[name]}
        (directory / "reach.json").write_text(json.dumps({"address": target.address, **values}, indent=1))
        token = secrets.token_hex(3)
        host = SshHost(target, local.run_dir / f"ssh-{token}", token, local.token)
        stack.callback(host.close)
        host.connect()
        close_to_others(host, Path(target.state), host.run_root)
        stack.enter_context(_hold(host, ledger, token, purpose, wait))
        ledger.clean(host, Path(target.state))
        with _original_error(), enter_session(Session(ledger, token, host, Path(target.state)), purpose) as remote:
            yield remote


@contextmanager
def session_beside(first: Session, local: Session, purpose: str) -> Iterator[Session]:
    """Yield another session on the host of `first`, which holds the host; `local` is this machine's session.

    Both may have instances and daemons at the same time. On a remote host, the new session has its own connection. When
    it reconnects, `first` also reconnects and holds the host again. Raises: HostError when the host cannot be used."""
    if not isinstance(first.host, SshHost):
        with session(purpose, state=first.state, beside=True) as second:
            yield second
        return
    holder, token = first.host, secrets.token_hex(3)
    host = SshHost(holder.target, local.run_dir / f"ssh-{token}", token, local.token)

    def hold_again() -> None:
        with suppress(ConnectionLost):  # it may not have noticed the loss yet
            holder.run(["true"])
        holder.recover()

    with closing(host):
        host.connect()
        host.on_reconnect = hold_again
        with _original_error(), enter_session(Session(first.ledger, token, host, first.state), purpose) as second:
            yield second


@contextmanager
def _original_error() -> Iterator[None]:
    """If the clean-up after the block fails because of a lost connection, raise the error that ended the block."""
    try:
        yield
    except ConnectionLost as lost:
        cause: BaseException | None = lost
        while isinstance(cause, ConnectionLost):
            cause = cause.__context__
        if isinstance(cause, HostError | HostBusy | StoreError | KeyboardInterrupt):
            raise cause from None
        raise


@contextmanager
def _hold(host: SshHost, ledger: Ledger, token: str, purpose: str, wait: OnWait | None) -> Iterator[None]:
    """Hold the host's locks inside the block, and take them again after each reconnection.

    After a lost connection, the locks are freed only when sshd notices the loss, which may take hours if a cable was
    unplugged. So the ledger records the process that holds them, and the next session with this ledger kills it."""
    mark = f"holder-{token}"  # not the session's own mark, since this process must outlive all others of the session
    holders, written = list[Process](), list[int]()

    def hold() -> None:
        has_freed = _end_stale_holders(host, ledger, token)
        written.append(ledger.add(_HOLDERS, "holder", mark))
        how = f"-x -w {_FREE_S}" if has_freed else "-nx"
        script = _HOLD.format(how=how, else_='flock -x "$1"' if wait else "exit")
        # With the default directory for `run`, this is also the lock of a Lastro that runs on that host: HOST_LOCK.
        directories = [host.target.state, f"{host.run_root}-host"]
        argv = ["env", f"{OWNER_VARIABLE}={mark}", "sh", "-c", script, "hold", purpose, *directories]
        with host.recorded():
            holders.append(holder := host.spawn(argv, lasting=False))
        line = holder.wait_line("", _LOCK_S).strip()
        if line == "held":
            return
        other = LockHolder.read(line.removeprefix("busy: "))
        if wait is None:
            raise HostBusy(
                f"{host.name} is in use by {other.text if other else 'another Lastro'}",
                "two measurements would disturb each other: wait, or use --wait",
                facts.fingerprint(host),
            )
        wait(other, 0)
        holder.wait_line("held\n", _DAY_S)

    try:
        hold()
        host.on_reconnect = hold
        yield
    finally:
        codes = [holder.stop().returncode for holder in holders]
        if codes and codes[-1] != LOST:
            ledger.drop(written[-1])


def _end_stale_holders(host: SshHost, ledger: Ledger, token: str) -> bool:
    """Kill holders of dead sessions of this ledger, or of a lost connection; return whether there were any."""
    live_holders = {f"holder-{live}" for live in ledger.live_sessions() if live != token}
    stale = [owned for owned in ledger.objects(_HOLDERS) if owned.name not in live_holders]
    pids = set[int]()
    for owned in stale:
        if is_token(owned.name.removeprefix("holder-")):
            pids |= host.view.end_owned(owned.name)
        ledger.drop(owned.id)
    return bool(pids)


def clean(state: Path, *, dry_run: bool = False) -> list[tuple[str, OwnedObject]]:
    """Remove the objects of dead sessions on remote hosts; return (name of the host, object) of each removed object.

    With `dry_run`, return the objects without removing them. Raises, after all other hosts have been cleaned: HostError
    with the names of the hosts that could not be cleaned, or HostBusy if each of them is only busy."""
    removed, problems, busy = list[tuple[str, OwnedObject]](), list[str](), list[bool]()
    for file in sorted((state / "hosts").glob("*/reach.json")):
        with closing(Ledger(file.parent)) as ledger:
            dead = [owned for token in ledger.dead_sessions() for owned in ledger.objects(token)]
            if not dead or dry_run:
                removed += [(file.parent.name, owned) for owned in dead]
                continue
            try:
                target = SshTarget(**json.loads(file.read_text(encoding="utf-8")))
                removed += [(target.name, owned) for owned in _clean_host(target, ledger)]
            except (ValueError, TypeError) as error:
                raise StoreError(f"{file}: {error}", "the file is damaged: remove its directory") from error
            except (HostError, HostBusy, TrialError) as error:
                problems.append(f"{error.message} (objects left there: {len(dead)})")
                busy.append(isinstance(error, HostBusy))
    if problems:
        kind = HostBusy if all(busy) else HostError
        raise kind("; ".join(problems), "run `lastro clean` again when the host is reachable and idle")
    return removed


def _clean_host(target: SshTarget, ledger: Ledger) -> list[OwnedObject]:
    with TemporaryDirectory(prefix="lastro-") as sockets:
        token = secrets.token_hex(3)
        host = SshHost(target, Path(sockets), token)
        with closing(host):
            host.connect()
            with _hold(host, ledger, token, "lastro clean", wait=None):
                return ledger.clean(host, Path(target.state))
