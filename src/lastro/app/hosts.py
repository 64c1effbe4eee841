"""Take the host: session, image, testbed and scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from lastro.app.messages import say
from lastro.app.waiting import wait_reporter
from lastro.campaign.duration import configuration
from lastro.errors import InputError, did_you_mean
from lastro.host.base import Host
from lastro.host.ledger import STATE_DIR, Session, session
from lastro.image import functions, rootfs
from lastro.interrupts import one_interrupt
from lastro.results.columns import wrong
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import Scenario, guest_of, scenario_of, schema
from lastro.shapes import MisshapenData, made
from lastro.study import design
from lastro.study.levels import functions_in
from lastro.study.model import Study
from lastro.study.resolve import check_stored
from lastro.testbed import Testbed, guest_testbeds, local_testbed, spread_testbed

if TYPE_CHECKING:
    from lastro.host.lock import OnWait
    from lastro.host.testbed_file import GuestPlan, TestbedFile

NeedsOn = Callable[[Host], rootfs.ImageAdditions]


@contextmanager
def testbed(
    purpose: str,
    *,
    wait: bool = False,
    needs: NeedsOn = lambda host: rootfs.ImageAdditions(),
    file: TestbedFile | None = None,
    guests: Sequence[str] = (),
    beside: bool = False,
) -> Iterator[Testbed]:
    """Hold this host for one purpose, and yield a testbed whose image meets `needs`.

    The hosts of a testbed `file` are held too, and have the same root filesystem. A guest boots here; of several, the
    `guests` do. With `beside`, the process that started this one holds this host. Raises: InputError when the file and
    `guests` do not fit."""
    plans = guests_to_boot(file, guests)
    with (
        one_interrupt() as ignore,
        session(purpose, wait=(on_wait := wait_reporter(wait)), beside=beside) as held,
        placed(held, image_of(held, _needs_on(held, needs)), file, plans, purpose, on_wait) as bed,
    ):
        try:
            yield bed
        finally:
            ignore()


def guests_to_boot(file: TestbedFile | None, names: Sequence[str] = ()) -> list[GuestPlan]:
    """Return the guests to boot. Raises: InputError when a file has several and none is named, or none of its own."""
    known = file.guests if file else {}
    if known and not names:
        listed = ", ".join(f'"{name}"' for name in known)
        raise InputError(
            f"{file.file if file else ''} has several guests, and nothing says which is the host",
            f"in the study, add guest = [{listed}] to [factors], or choose one with --set guest=NAME",
        )
    plans = [known[name] for name in names if name in known]
    if names and not plans:
        raise InputError(
            f"the study runs in guests ({', '.join(names)}), and no testbed file has them",
            did_you_mean(names[0], known) if known else "--testbed FILE, with a table [guests.NAME] for each",
        )
    return plans or ([file.guest] if file and file.guest else [])


def guest_names(study: Study) -> list[str]:
    """Return the guests that the treatments of a study name, each once."""
    configs = (configuration(study, treatment) for treatment in design.treatments(study))
    return [name for name in dict.fromkeys(map(guest_of, configs)) if name]


def placed(
    session: Session,
    image: rootfs.Image,
    file: TestbedFile | None,
    plans: Sequence[GuestPlan],
    purpose: str,
    wait: OnWait | None,
) -> AbstractContextManager[Testbed]:
    """Return the testbed of a file, in these guests if any; without a file, this machine, which `session` holds."""
    if file is None:
        return local_testbed(session, image)
    if plans:
        what = "the guest" if len(plans) == 1 else f"{len(plans)} guests, one after the other"
        announce_builds(session, image, plans)
        say(f"booting {what}; in software, each takes about a minute …")
        return guest_testbeds(session, image, plans, purpose)
    return spread_testbed(session, image, file, purpose, wait)


def announce_builds(session: Session, image: rootfs.Image, plans: Sequence[GuestPlan]) -> None:
    """Say what the first use of these guests has to build; nothing once it is there."""
    from lastro.image.guest_host import to_build

    state = session.ledger.state
    builds = [to_build(image, state, each.release, each.kernel, each.platforms, each.hypervisor) for each in plans]
    if names := dict.fromkeys(name for several in builds for name in several):
        say(f"building what the guest boots, once (takes minutes): {', '.join(names)} …")


def _needs_on(session: Session, needs: NeedsOn) -> rootfs.ImageAdditions:
    """Return the requirements of the image; commands that compile for them do not enter the transcripts of trials."""
    with session.host.recorded():
        return needs(session.host)


def image_of(session: Session, needs: rootfs.ImageAdditions | None = None, snapshot: str | None = None) -> rootfs.Image:
    """Return the root filesystem, built now if there is none yet. `snapshot`: as for `ImageRecipe.of_this_host`."""
    recipe, store = rootfs.ImageRecipe.of_this_host(session.host, needs, snapshot), STATE_DIR / "rootfs"
    if rootfs.find(recipe, store) is None:
        say("building the root filesystem, once (about half a minute) …")
    with session.host.recorded():
        image = rootfs.ensure(recipe, store, session.host)
        return functions.added(image, needs.functions if needs else (), store, session.host)


def image_for(session: Session, study: Study) -> rootfs.Image:
    """Return the root filesystem for the trials of a study, built now if there is none yet."""
    return image_of(session, _needs_on(session, needs_of(study)))


def require_runnable(store: Store) -> None:
    """Check a stored campaign before running it: its data is valid, and its study could be read from a file.

    Raises: StoreError, StudyError."""
    data = load_campaign(store)
    scenario = scenario_of(data.study)
    check_stored(data.study, schema(scenario), f"the study in {store.directory}")
    calibrations = [each for row in store.testbeds() for each in store.calibrations(row.name).items()]
    for key, value in calibrations if store.is_fleet else data.calibrations.items():
        try:
            kind = scenario.calibration_kinds.get(key.partition("/")[0])
            made(kind.shape if kind else Any, value)
        except MisshapenData as error:
            raise wrong(store.directory, "calibration.value", key, error) from error


def needs_of(study: Study) -> NeedsOn:
    """Return what the trials of a study require in the root filesystem."""
    kind = scenario_of(study)
    configs = [configuration(study, treatment) for treatment in design.treatments(study)]
    used = {name for config in configs for name in functions_in(str(config.get("function", "")))}
    own = rootfs.ImageAdditions(functions=tuple(each for each in study.functions if each.name in used))
    return lambda host: kind.image_needs(host, configs).and_of(own)


@contextmanager
def scenario_on_host(
    study: Study, purpose: str, *, wait: bool = False, file: TestbedFile | None = None, beside: bool = False
) -> Iterator[Scenario]:
    """Yield a study's scenario, ready to run. If it needs a testbed, the image has what the study requires.

    `beside`: as for `testbed`."""
    kind = scenario_of(study)
    if not kind.needs_root:
        with one_interrupt():
            yield kind(None)
        return
    names = guest_names(study)
    with (
        testbed(purpose, wait=wait, needs=needs_of(study), file=file, guests=names, beside=beside) as bed,
        ExitStack() as stack,
    ):
        guests = {name: kind(each) for name, each in bed.guests.items()}
        scenario = next(iter(guests.values()), None) or kind(bed)
        scenario.guests = guests
        for each in guests.values() or [scenario]:
            stack.callback(each.close)
        yield scenario
