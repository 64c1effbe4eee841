"""What lies under a workload's files, from what real instances printed of their mounts."""

from __future__ import annotations

from lastro.scenarios.shared.storage import in_short, mount_facts, sentence

OVERLAY = (
    "41 40 0:37 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/data/overlay2/4f/diff,workdir=/data/w\n"
    "42 41 0:38 / /proc rw - proc proc rw\n"
)
VOLUME = "60 41 254:0 /data/volumes/9a/_data /var/tmp rw,relatime master:1 - ext4 /dev/vda rw\n"


def test_an_overlay_has_its_layer_on_the_host() -> None:
    assert mount_facts(OVERLAY, "/") == {"layer on the host": "/data/overlay2/4f/diff"}


def test_a_volume_is_a_directory_of_a_device() -> None:
    assert mount_facts(OVERLAY + VOLUME, "/var/tmp") == {"directory of the device": "/data/volumes/9a/_data"}


def test_of_two_mounts_at_a_place_the_last_one_is_on_top() -> None:
    hidden = VOLUME.replace("9a", "1b")
    assert mount_facts(hidden + VOLUME, "/var/tmp") == mount_facts(VOLUME, "/var/tmp")
    assert mount_facts(OVERLAY + "50 41 254:0 / / rw - ext4 /dev/vda rw\n", "/") == {}


def test_what_is_no_mount_tells_nothing() -> None:
    assert mount_facts("", "/") == mount_facts("a - b\n- - -\nx y z\n", "/") == mount_facts(OVERLAY, "") == {}


HOST = {"host's file system": "ext4", "host's device": "/dev/vda"}
LAYER = {"file system": "overlay", "device": "overlay", "layer on the host": "/u", "on the host": "/u", **HOST}
DISK = {"file system": "ext4", "device": "/dev/vda", "on the host": "/s", **HOST}
DIRECTORY = {"file system": "ext4", "device": "/dev/vda", "directory of the device": "/v", "on the host": "/d", **HOST}
LOOP = {**DIRECTORY, "file system": "btrfs", "device": "/dev/loop0"}


def test_the_path_is_said_in_a_line() -> None:
    assert sentence(LAYER, machine=False) == "overlay, its layer in /u on ext4 (/dev/vda)"
    assert sentence(DISK, machine=True) == "ext4 (/dev/vda), its disk in /s on ext4 (/dev/vda)"
    assert sentence(DIRECTORY, machine=False) == "ext4 (/dev/vda), its directory /v"
    assert sentence(LOOP, machine=False) == "btrfs (/dev/loop0), its directory /v, the device in /d on ext4 (/dev/vda)"
    assert sentence({}, machine=False) == "unknown"


def test_what_is_another_in_each_trial_is_left_out_for_the_ledger_of_differences() -> None:
    assert in_short(LAYER, machine=False) == "overlay on ext4 (/dev/vda)"
    assert in_short(DISK, machine=True) == "ext4 (/dev/vda) on ext4 (/dev/vda)"
    assert in_short(DIRECTORY, machine=False) == "ext4 (/dev/vda)"
    assert in_short(LOOP, machine=False) == "btrfs (/dev/loop0) on ext4 (/dev/vda)"
    assert in_short({}, machine=False) == "unknown"
