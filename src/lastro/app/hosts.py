"""Hold the host and set it up for trials: session, root filesystem, testbed and scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lastro import registry
from lastro.app.messages import say
from lastro.app.own_parts import parts_at, require_used
from lastro.app.waiting import wait_reporter
from lastro.errors import InputError, Unavailable, did_you_mean
from lastro.host.base import Host
from lastro.host.ledger import STATE_DIR, Session, session
from lastro.image import checkouts, functions, own_root, rootfs
from lastro.interrupts import one_interrupt
from lastro.platforms.base import Platform
from lastro.results.columns import invalid_value
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.scenarios.base import Scenario, guest_of, make_parts, platform_levels, scenario_of, schema
from lastro.shapes import MisshapenData, from_plain
from lastro.study import design
from lastro.study.levels import functions_in, part_level
from lastro.study.model import VARIANT, Study
from lastro.study.own_function import OwnFunction
from lastro.study.resolve import check_stored
from lastro.study.root_change import UNCHANGED, RootChange
from lastro.testbed import Testbed, guest_testbeds, local_testbed, spread_testbed, with_roots

if TYPE_CHECKING:
    from lastro.host.lock import OnWait
    from lastro.host.testbed_file import GuestPlan, TestbedFile

NeedsOn = Callable[[Host], rootfs.ImageAdditions]
_IN_A_GUEST = (
    "a guest gets the program of this machine with the programs beside it, and no libraries but those of its release:"
    " build it static, or give the guest another `release`"
)


@contextmanager
def testbed(
    purpose: str,
    *,
    wait: bool = False,
    needs: NeedsOn = lambda host: rootfs.ImageAdditions(),
    file: TestbedFile | None = None,
    guests: Sequence[str] = (),
    programs: Sequence[str] = (),
    changes: Sequence[RootChange] = (),
    beside: bool = False,
) -> Iterator[Testbed]:
    """Hold this machine, and yield a testbed whose root filesystem contains what `needs` returns.

    The hosts of a testbed `file` are held, too, and get the same root filesystem. If `file` has a guest, it boots on
    this machine; if it has several, those named in `guests` boot. They contain the `programs` of this machine. The
    `roots` of the testbed have the root filesystems with `changes`. With `beside`, this machine is not held, since the
    process that started this one holds it. Raises: InputError when `file` and `guests` do not match."""
    plans = [replace(plan, programs=tuple(programs)) for plan in guests_to_boot(file, guests)]
    on_wait = wait_reporter(wait)
    with one_interrupt() as ignore, session(purpose, wait=on_wait, beside=beside) as host_session:
        image, roots = _images(host_session, needs, changes)
        more = [root for root in dict.fromkeys(roots.values()) if root != image]
        with (
            set_up_testbed(host_session, image, file, plans, purpose, on_wait, more) as bed,
            with_roots(bed, roots, purpose) as complete,
        ):
            try:
                yield complete
            finally:
                ignore()


def guests_to_boot(file: TestbedFile | None, names: Sequence[str] = ()) -> list[GuestPlan]:
    """Return the guests of the testbed file to boot: those in `names` or, without names, its only guest.

    Names that the file lacks are left out. Empty for a file without guests, or without a file. Raises: InputError when
    the file has several guests and `names` is empty, or has none of the names."""
    known = file.guests if file else {}
    if known and not names:
        listed = ", ".join(f'"{name}"' for name in known)
        hint = f"in the study, add guest = [{listed}] to [factors], or choose one with --set guest=NAME"
        raise InputError(f"{file.file if file else ''} has several guests, and nothing says which is the host", hint)
    plans = [known[name] for name in names if name in known]
    if names and not plans:
        hint = did_you_mean(names[0], known) if known else "--testbed FILE, with a table [guests.NAME] for each"
        raise InputError(f"the study runs in guests ({', '.join(names)}), and no testbed file has them", hint)
    return plans or ([file.guest] if file and file.guest else [])


def guest_names(study: Study) -> list[str]:
    """Return the names of the guests that a study's treatments choose, each once."""
    configs = design.configurations(study)
    return [name for name in dict.fromkeys(map(guest_of, configs)) if name]


def set_up_testbed(
    session: Session,
    image: rootfs.Image,
    file: TestbedFile | None,
    plans: Sequence[GuestPlan],
    purpose: str,
    wait: OnWait | None,
    more: Sequence[rootfs.Image] = (),
) -> AbstractContextManager[Testbed]:
    """Return a context manager that yields the testbed: this machine if `file` is None, else as the file describes.

    If `plans` has guests, all roles are in these guests, which also contain the root filesystems in `more`. `session`
    holds this machine."""
    if file is None:
        return local_testbed(session, image)
    if plans:
        what = "the guest" if len(plans) == 1 else f"{len(plans)} guests, one after the other"
        announce_builds(session, image, plans)
        say(f"booting {what}; in software, each takes about a minute …")
        return guest_testbeds(session, image, plans, purpose, more)
    return spread_testbed(session, image, file, purpose, wait)


def announce_builds(session: Session, image: rootfs.Image, plans: Sequence[GuestPlan]) -> None:
    """Print what must be built before these guests can boot; print nothing if everything is built."""
    from lastro.image.guest_host import to_build

    state = session.ledger.state
    builds = [to_build(image, state, plan.release, plan.kernel, plan.platforms, plan.hypervisor) for plan in plans]
    if names := dict.fromkeys(name for names_of_plan in builds for name in names_of_plan):
        say(f"building what the guest boots, once (takes minutes): {', '.join(names)} …")


def image_of(
    session: Session,
    needs: rootfs.ImageAdditions | None = None,
    snapshot: str | None = None,
    change: RootChange = UNCHANGED,
) -> rootfs.Image:
    """Return the root filesystem with the change of a variant; build it now if it does not exist.

    `snapshot`: as for `ImageRecipe.of_this_host`."""
    recipe = rootfs.ImageRecipe.of_this_host(session.host, needs, snapshot)
    store = STATE_DIR / "rootfs"
    more = tuple(sorted(set(change.packages) - set(recipe.packages)))
    recipe = replace(recipe, release=change.release or recipe.release, packages=recipe.packages + more)
    with session.host.recorded():
        with_sources = [_with_files(session, function, change.git) for function in (needs.functions if needs else ())]
        if change.rootfs:
            say(f"reading the root filesystem {change.rootfs} …")
            image = own_root.ensure(change.rootfs, recipe.extra_files, store, session.host)
        else:
            if rootfs.built_image(recipe, store) is None:
                change_text = f" with {change}" if change.release or change.packages else ""
                say(f"building the root filesystem{change_text}, once (about half a minute) …")
            image = rootfs.ensure(recipe, store, session.host)
        return functions.with_functions(image, with_sources, store, session.host)


def _with_files(session: Session, function: OwnFunction, revision: str) -> OwnFunction:
    """Return `function` with its files; if they come from a repository, build them now. Raises: as `checkouts`."""
    if not function.repository:
        return function
    source = checkouts.GitSource(f"function '{function.name}'", function.repository, function.build)
    checkout = checkouts.checkout_of(source, revision or function.revision, STATE_DIR / "checkouts", session.host)
    if not checkout.exists:
        say(f"building {source.what} at commit {checkout.commit[:12]}, once …")
    built = function.in_checkout(str(checkouts.ensure(checkout, session.host)))
    return replace(built, revision=checkout.commit)


def build_images(session: Session, study: Study) -> None:
    """Build the root filesystems for the trials of a study that do not exist yet."""
    _images(session, needs_of(study), root_changes(study))


def _images(
    session: Session, needs: NeedsOn, changes: Sequence[RootChange]
) -> tuple[rootfs.Image, dict[RootChange, rootfs.Image]]:
    """Return the root filesystem that contains what `needs` returns, and {change: root filesystem of a variant}.

    `needs` is called for each change, because another revision of parts may need other contents. Root filesystems that
    do not exist are built now."""
    roots = {}
    for change in (UNCHANGED, *changes):
        with registry.using_versions(parts_at(change.parts).parts):
            with session.host.recorded():  # not in the transcript of a trial
                additions = needs(session.host)
            roots[change] = image_of(session, additions, change=change)
    return roots.pop(UNCHANGED), roots


def require_runnable(store: Store) -> None:
    """Check a stored campaign before running it: its data must be valid, and its study must be a valid study file.

    Raises: StoreError for the data, StudyError for the study."""
    data = load_campaign(store)
    scenario = scenario_of(data.study)
    check_stored(data.study, schema(scenario), f"the study in {store.directory}")
    calibrations = [calibration for row in store.testbeds() for calibration in store.calibrations(row.name).items()]
    for key, value in calibrations if store.is_fleet else data.calibrations.items():
        try:
            kind = scenario.calibration_kinds.get(key.partition("/")[0])
            from_plain(kind.shape if kind else Any, value)
        except MisshapenData as error:
            raise invalid_value(store.directory, "calibration.value", key, error) from error


def needs_of(study: Study) -> NeedsOn:
    """Return a function of a host: it returns what a study's trials require in the root filesystem on that host."""
    configs = design.configurations(study)
    used = {name for config in configs for name in functions_in(str(config.get("function", "")))}
    used_functions = [function for function in study.functions if function.name in used]
    revisions = [RootChange.of(config).git for config in configs]
    if all(revisions):  # no treatment has the revision that the study names
        used_functions = [replace(function, revision=revisions[0]) for function in used_functions]
    additions = rootfs.ImageAdditions(functions=tuple(used_functions))
    return lambda host: scenario_of(study).image_needs(host, configs).combined_with(additions)


@contextmanager
def scenario_on_host(
    study: Study, purpose: str, *, wait: bool = False, file: TestbedFile | None = None, beside: bool = False
) -> Iterator[Scenario]:
    """Yield a study's scenario, ready to run.

    If it needs a testbed, one is set up as by `testbed`, with the same arguments; its root filesystem has what the
    study requires."""
    names, changes = guest_names(study), root_changes(study)
    if any(change.parts for change in changes):
        require_used(study)
    if not scenario_of(study).needs_root:
        with one_interrupt():
            scenario = _scenario(study, None)
            scenario.roots = {change: _scenario(study, None, change) for change in changes}
            yield scenario
        return
    needs, programs = needs_of(study), _programs_of(study)
    with (
        testbed(
            purpose, wait=wait, needs=needs, file=file, guests=names, programs=programs, changes=changes, beside=beside
        ) as bed,
        ExitStack() as stack,
    ):

        def with_variants(testbed: Testbed, change: RootChange = UNCHANGED) -> Scenario:
            scenario = _scenario(study, testbed, change)
            stack.callback(scenario.close)
            scenario.roots = {change: with_variants(root, change) for change, root in testbed.roots.items()}
            return scenario

        guests = {name: with_variants(guest_bed) for name, guest_bed in bed.guests.items()}
        scenario = next(iter(guests.values()), None) or with_variants(bed)
        scenario.guests = guests
        _require_programs(study, scenario)
        yield scenario


def _scenario(study: Study, bed: Testbed | None, change: RootChange = UNCHANGED) -> Scenario:
    """Return the study's scenario on a testbed, with the parts that a variant has with this change."""
    versions = parts_at(change.parts).parts
    with registry.using_versions(versions):
        scenario = scenario_of(study)(bed)
    scenario.versions = versions
    return scenario


def _programs_of(study: Study) -> list[str]:
    """Return the paths of the programs that a study's treatments choose for their platforms, each once."""
    configs = design.configurations(study)
    levels = dict.fromkeys(level for config in configs if "platform" in config for level in platform_levels(config))
    paths = []
    for level in levels:
        with suppress(InputError, Unavailable):  # its treatments are unavailable
            paths += [path for part in make_parts(Platform, level) for path in part.programs.values()]
    return list(dict.fromkeys(paths))


def _require_programs(study: Study, scenario: Scenario) -> None:
    """Raise InputError when a program that a variant chooses for a platform cannot be used."""
    checked: set[str] = set()
    for treatment in design.treatments(study):
        config = study.config(treatment.levels)
        variant = str(config.get(VARIANT.name, ""))
        level = part_level(config, "platform") if "platform" in config else ""
        if not any(name.startswith("platform.") for name in study.variants.get(variant, {})) or level in checked:
            continue
        checked.add(level)
        bed = scenario.at(config).testbed
        try:
            with bed.host.recorded(), scenario.at(config).with_its_parts():
                for part in make_parts(Platform, level):
                    part.require_programs(bed)
        except Unavailable as error:
            hint = error.hint if bed.guest is None else _IN_A_GUEST
            where = f" on {bed.host.name}" if bed.host.remote else ""
            raise InputError(f"variant {variant}{where}: {error.message}", hint) from None


def root_changes(study: Study) -> list[RootChange]:
    """Return the changes of a study's variants that need testbeds of their own, each once; empty if there are none."""
    changes = (RootChange.of(study.config(treatment.levels)) for treatment in design.treatments(study))
    return [change for change in dict.fromkeys(changes) if change]
